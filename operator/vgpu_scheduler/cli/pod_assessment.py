"""What can be said about pods without the nodes: whether they are refused, and the state of their quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.engine import used_by
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Outcome, counted
from vgpu_scheduler.reading import ClusterView, is_ours, left_to_whom
from vgpu_scheduler.reading.applied import as_applied
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    NamespaceObjects,
    World,
    as_meant,
    ask,
    claims_of,
    counted_for_quotas,
    is_workload,
    known_problems,
    left_to_cards,
    quotas_in_the_way,
    quotas_of,
)
from vgpu_scheduler.whatif.reasons.groups import group_remedies
from vgpu_scheduler.whatif.tenant_advice.group_quotas import other_members_of
from vgpu_scheduler.whatif.world.queue_order import rank_in_queue
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.tables import few


@dataclass(frozen=True, slots=True)
class PodAssessment:
    """What is known about a pod.

    Attributes
    ----------
    refused
        Why no node at all would do; empty if one may.
    reasons
        What else keeps it waiting, with remedies.
    quota
        The state of its namespace's quotas; empty without limits.
    exceeded
        Whether the pod would exceed a quota.
    copies
        How many copies the quotas allow, up to the number asked for; None for a single pod, or if the number depends
        on the cards.
    unknown
        The resources with a quota of which the pod's amount depends on the card that it gets.
    many
        Whether the question is about copies.
    """

    pod: str
    refused: str
    quota: str
    exceeded: bool
    reasons: tuple[str, ...] = ()
    copies: int | None = None
    unknown: tuple[str, ...] = ()
    many: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether something known keeps the pod from being placed."""
        return bool(self.refused or self.exceeded or self.reasons)

    def as_json(self) -> dict[str, Any]:
        """Return the assessment as plain values."""
        left_out = {"many"} if self.many else {"many", "copies"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def __str__(self) -> str:
        """Return the assessment in words."""
        said = [self.refused] if self.refused else []
        said += [f"its quota keeps it waiting ({self.quota})"] if self.exceeded else []
        said += self.reasons
        if said:
            return f"{self.pod}: {'; '.join(said)}"
        who = "it" if self.copies is None else "1 copy" if self.copies == 1 else f"{self.copies} copies"
        nothing = f"nothing known keeps {who} from being placed"
        depends = f"; how much of {' and of '.join(self.unknown)} it takes depends on the card" if self.unknown else ""
        depends += ", and so does the number of copies that are admitted" if self.unknown and self.many else ""
        return f"{self.pod}: {nothing}{f' ({self.quota})' if self.quota else ''}{depends}"


@dataclass(slots=True)
class _Before:
    """The pods of a namespace that are placed before another pod.

    Attributes
    ----------
    counted
        The known amounts that they count in quotas, by resource.
    unknown
        How many of them take more, depending on their cards.
    there, kept
        The UIDs of these pods, and of the pods that are known to be kept waiting.
    """

    counted: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    there: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)


def known_of(
    world: World,
    pod: Pod,
    namespace_objects: NamespaceObjects,
    settings: Settings,
    *,
    waits: bool,
    before: _Before | None = None,
) -> PodAssessment:
    """Return what is known about a pod in a world without nodes.

    Parameters
    ----------
    namespace_objects
        The objects of its namespace.
    waits
        Whether the pod exists, with its own scheduler name and maybe a condition.
    before
        The pods of its namespace that are placed before it; None for none.
    """
    before = before or _Before()
    decision = ask(world, pod).decision
    refused = (
        ("; ".join(reason.text for reason in decision.reasons) or decision.message)
        if decision.outcome is Outcome.REFUSED
        else ""
    )
    others = waits and not is_ours(pod.scheduler_name, settings)  # our quotas do not hold their pods
    meant = as_meant(world, pod) if refused else pod
    other_members = None if others else other_members_of(world, pod, before.there, before.kept)
    over = not others and bool(quotas_in_the_way(world, meant, before.counted, other_members))
    exceeded, then_exceeded = over and not refused, over and meant is not pod
    reasons = [*known_problems(world, pod, namespace_objects), *(() if refused else group_remedies(world, pod))]
    quota_status, unknown = _quota_status(world, pod, before), left_to_cards(world, pod)
    with_it = str(other_members or "") if (exceeded or then_exceeded) and quota_status else ""
    quota_status += f"; {with_it}" if with_it else ""
    reasons += [f"then its quota keeps it waiting ({quota_status})"] if then_exceeded else []
    if waits:
        if others:
            reasons.insert(0, left_to_whom(pod.scheduler_name, settings))
        condition = pod.scheduled_condition
        if condition is not None and condition.message and condition.message.strip(". ") not in refused:
            reasons.append(f"its condition says: {condition.message}")
    return PodAssessment(pod.key, refused, quota_status, exceeded, tuple(reasons), unknown=unknown)


def _quota_status(world: World, pod: Pod, before: _Before) -> str:
    """Return the state of the quotas of a pod's namespace in words; empty without limits."""
    used = used_by(pod.namespace, quotas_of(world, pod.namespace, before.counted))
    others = " with the pods before it" if any(before.counted.values()) else ""
    if before.unknown:
        which = f"{counted(before.unknown, 'pod')} before it {'takes' if before.unknown == 1 else 'take'}"
        others += f", and what {which}, which depends on the card"
    return f"{used}{others}" if used else ""


def known_of_all(
    world: World,
    view: ClusterView,
    waiting: Sequence[Pod],
    new: Sequence[Pod],
    written: Sequence[Object],
    count: int = 0,
) -> list[PodAssessment]:
    """Return what is known about pending pods and pods of files, in the order in which they are placed.

    A pod that may be placed, as far as is known, counts in the quotas of the pods after it.

    Parameters
    ----------
    written
        The objects in the files.
    count
        Copies of each pod of the files; 0 for the pods themselves.
    """
    namespace_objects, settings = _namespace_objects(world, view, written), view.scheduler.settings
    _replace_by_new(world, waiting, new)
    for pod in new:  # their group annotations count, except for copies, whose number is not known yet
        world.engine.observe_pod(created(world, pod, pod.uid), 0.0)
        if count and not world.engine.groups.problem(pod):
            world.engine.groups.forget(pod.uid)
    if count:
        return [_known_of_copies(world, pod, namespace_objects, settings, count) for pod in new]
    turns = [_Turn(pod, waits=True) for pod in _in_turn(world, waiting)]
    turns += [_Turn(pod, waits=False) for pod in _in_turn(world, new)]
    return _known_in_turn(world, turns, namespace_objects, settings)


def _namespace_objects(world: World, view: ClusterView, written: Sequence[Object]) -> NamespaceObjects:
    """Return the objects of a namespace, with those of files and the claims that their workloads will create."""
    claims = [claim for obj in written if is_workload(obj) for claim in claims_of(obj)]
    made = as_applied(world, (), [{**claim, "kind": "PersistentVolumeClaim"} for claim in claims])
    applied = as_applied(world, view.objects, written)
    return NamespaceObjects.among([*made, *view.objects, *applied], view.missing)


def _replace_by_new(world: World, waiting: Sequence[Pod], new: Sequence[Pod]) -> None:
    """Take pending pods that are in files, too, out of their groups: the pods of the files replace them."""
    written_anew = {pod.key for pod in new} - {pod.key for pod in waiting}
    for pod in [each for each in world.pending.values() if each.key in written_anew]:
        world.engine.groups.forget(pod.uid)


def _known_of_copies(
    world: World, pod: Pod, namespace_objects: NamespaceObjects, settings: Settings, count: int
) -> PodAssessment:
    """Return what is known about copies of a pod, and how many of them its quotas admit, ``count`` at most."""
    known = replace(known_of(world, pod, namespace_objects, settings, waits=False), many=True)
    return known if known.is_kept or known.unknown else replace(known, copies=_let_in(world, pod, count))


class _Turn(NamedTuple):
    """A pod in the order in which pods are placed, and whether it exists and waits."""

    pod: Pod
    waits: bool


def _known_in_turn(
    world: World, turns: Sequence[_Turn], namespace_objects: NamespaceObjects, settings: Settings
) -> list[PodAssessment]:
    """Return what is known about pods that are placed one after the other.

    A group of which too many pods are kept waiting takes nothing of the quotas, which the pods after it may use then.
    So all pods are assessed again for each such group. What is known of the pods that keep their group waiting stays:
    they are the reason why it takes nothing.
    """
    alone = {pod.uid: known_of(world, pod, namespace_objects, settings, waits=False) for pod, _ in turns}
    hindered = {uid for uid, known in alone.items() if known.refused or known.reasons}  # regardless of their quotas
    keep_their_group: dict[str, PodAssessment] = {}
    kept_groups: dict[GroupKey, str] = {}

    def assess(turn: _Turn, before: _Before) -> PodAssessment:
        pod = turn.pod
        known = keep_their_group.get(pod.uid)
        known = known or known_of(world, pod, namespace_objects, settings, waits=turn.waits, before=before)
        group = _group_of(world, pod)
        if group in kept_groups and not known.is_kept:
            return replace(known, reasons=(kept_groups[group],))
        return known

    while True:
        assessed: dict[str, PodAssessment] = {}
        placed: defaultdict[str, _Before] = defaultdict(lambda: _Before(kept=hindered))
        for turn in turns:
            pod, before = turn.pod, placed[turn.pod.namespace]
            known = assessed[pod.uid] = assess(turn, before)
            if not known.is_kept:
                before.counted.update(counted_for_quotas(world, pod))
                before.unknown += bool(known.unknown)
                before.there.add(pod.uid)
        kept_pods = [pod for pod, _ in turns if assessed[pod.uid].is_kept]
        reasons = _groups_kept(world, kept_pods)
        more_groups = {group: reason for group, reason in reasons.items() if group not in kept_groups}
        if not more_groups:
            return list(assessed.values())
        keep_their_group |= {pod.uid: assessed[pod.uid] for pod in kept_pods if _group_of(world, pod) in more_groups}
        kept_groups |= more_groups


def _in_turn(world: World, pods: Sequence[Pod]) -> list[Pod]:
    """Return pods in queue order; the pods of a group take the place of their first pod."""
    turns: dict[object, list[Pod]] = {}
    for pod in sorted(pods, key=partial(rank_in_queue, world)):
        turns.setdefault(_group_of(world, pod) or pod.uid, []).append(pod)
    return [pod for together in turns.values() for pod in together]


def _group_of(world: World, pod: Pod) -> GroupKey | None:
    """Return the group that a pod is placed with; None if it is placed alone."""
    group = world.engine.groups.status_of(pod)
    return group.key if group is not None and group.needed else None


def _groups_kept(world: World, kept: Sequence[Pod]) -> dict[GroupKey, str]:
    """Return why groups are not placed as a whole: so many of their pods are kept that fewer than needed are left."""
    by_group: dict[GroupKey, list[str]] = {}
    for pod in kept:
        if group := _group_of(world, pod):
            by_group.setdefault(group, []).append(pod.name)
    found: dict[GroupKey, str] = {}
    for group, names in by_group.items():
        status = world.engine.groups.status(group)
        if len(status.waiting) - len(names) < status.needed:
            found[group] = (
                f"it is placed together with others of group {group}, of which {status.needed}"
                f" {'is' if status.needed == 1 else 'are'} needed at once,"
                f" and {few(names, 'pods')} {'is' if len(names) == 1 else 'are'} kept waiting"
            )
    return found


def _let_in(world: World, pod: Pod, count: int) -> int:
    """Return how many copies of a pod the quotas of its namespace allow, up to ``count``."""
    asked = counted_for_quotas(world, pod)
    left = (
        (report.limit - report.used) // asked[report.resource]
        for report in quotas_of(world, pod.namespace)
        if report.resource in asked
    )
    return min([count, *left])


def show_known(found: Sequence[PodAssessment], output: str) -> None:
    """Print the assessments."""
    if output not in FOR_PEOPLE:
        dump([each.as_json() for each in found], output)
    for each in found if output in FOR_PEOPLE else ():
        click.echo(str(each))
