"""What can be said of pods without the nodes: whether they are refused as they are, and how their quota stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.engine import used_by
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Outcome, counted
from vgpu_scheduler.reading import ClusterView, is_ours, left_to_whom
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    NamespaceObjects,
    World,
    ask,
    claims_of,
    counted_for_quotas,
    is_workload,
    known_problems,
    left_to_cards,
    quotas_in_the_way,
    quotas_of,
)
from vgpu_scheduler.whatif.conditions.group_quotas import other_members_of
from vgpu_scheduler.whatif.reasons.groups import group_remedies
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.tables import few

__all__ = ["known_of_all", "show_known"]


@dataclass(frozen=True, slots=True)
class PodAssessment:
    """What is known of a pod.

    Attributes
    ----------
    refused
        Why no node whatsoever would do; empty if one may.
    reasons
        What else keeps it, and what has to be done about it.
    quota
        How its namespace stands; empty without limits.
    exceeded
        Whether the namespace would hold more than it may.
    copies
        How many copies its quota lets in, up to those that were asked about; None where one pod was, or where that
        depends on the cards.
    unknown
        The resources with a quota of which it takes as much as the card that it gets has it be.
    many
        Whether copies were asked about.
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
        """Whether something that is known keeps it from being placed."""
        return bool(self.refused or self.exceeded or self.reasons)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        left_out = {"many"} if self.many else {"many", "copies"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def __str__(self) -> str:
        """Word it."""
        said = [self.refused] if self.refused else []
        said += [f"its quota keeps it waiting ({self.quota})"] if self.exceeded else []
        said += self.reasons
        if said:
            return f"{self.pod}: {'; '.join(said)}"
        who = "it" if self.copies is None else "1 copy" if self.copies == 1 else f"{self.copies} copies"
        nothing = f"nothing that is known keeps {who} from being placed"
        depends = f"; how much of {' and of '.join(self.unknown)} it takes depends on the card" if self.unknown else ""
        depends += ", and so does how many copies are let in" if self.unknown and self.many else ""
        return f"{self.pod}: {nothing}{f' ({self.quota})' if self.quota else ''}{depends}"


@dataclass(slots=True)
class _Before:
    """The pods of a namespace that are placed before another one.

    Attributes
    ----------
    counted
        What they count for in quotas, by resource, as far as that is known.
    unknown
        How many of them take more than that: how much depends on the card.
    there, kept
        Their UIDs, and those of the pods that are known to be kept.
    """

    counted: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    there: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)


def known_of(
    world: World,
    pod: Pod,
    seen: NamespaceObjects,
    settings: Settings,
    *,
    waits: bool,
    before: _Before | None = None,
) -> PodAssessment:
    """Return what is known of a pod in a world without nodes.

    Parameters
    ----------
    seen
        The objects of its namespace.
    waits
        Whether it is there, names its scheduler itself, and may have a condition.
    before
        The pods of its namespace that are placed before it; none without it.
    """
    before = before or _Before()
    decision = ask(world, pod).decision
    refused = ("; ".join(decision.reasons) or decision.message) if decision.outcome is Outcome.REFUSED else ""
    others = waits and not is_ours(pod.scheduler_name, settings)  # our quotas do not hold their pods
    other_members = None if refused or others else other_members_of(world, pod, before.there, before.kept)
    exceeded = not refused and not others and bool(quotas_in_the_way(world, pod, before.counted, other_members))
    reasons = [*known_problems(world, pod, seen), *(() if refused else group_remedies(world, pod))]
    if waits:
        if others:
            reasons.insert(0, left_to_whom(pod.scheduler_name, settings))
        condition = pod.scheduled_condition
        if condition is not None and condition.message and condition.message.strip(". ") not in refused:
            reasons.append(f"its condition says: {condition.message}")
    quota_status, unknown = _quota_status(world, pod, before), left_to_cards(world, pod)
    with_it = str(other_members or "") if exceeded and quota_status else ""
    quota_status += f"; {with_it}" if with_it else ""
    return PodAssessment(pod.key, refused, quota_status, exceeded, tuple(reasons), unknown=unknown)


def _quota_status(world: World, pod: Pod, before: _Before) -> str:
    """Say how the namespace of a pod stands with its quotas; empty without limits."""
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
    """Return what is known of pods that wait, and of those that files ask about, in the order in which they are placed.

    What is placed as far as is known counts in the quotas of those after it.

    Parameters
    ----------
    written
        What the files hold.
    count
        Copies of each of the pods of files; 0 for the pods themselves.
    """
    made = [claim for obj in written if is_workload(obj) for claim in claims_of(obj)]
    made = [{"kind": "PersistentVolumeClaim", **claim} for claim in made]
    seen = NamespaceObjects.among([*view.objects, *written, *made], view.missing)
    settings = view.scheduler.settings
    written_anew = {pod.key for pod in new} - {pod.key for pod in waiting}
    for pod in [each for each in world.pending.values() if each.key in written_anew]:
        world.engine.groups.forget(pod.uid)  # those of files stand for them
    for pod in new:  # what they say of groups counts, but for copies, of which nobody knows how many there will be
        world.engine.observe_pod(created(world, pod, pod.uid), 0.0)
        if count and not world.engine.groups.problem(pod):
            world.engine.groups.forget(pod.uid)
    if count:
        alone = [(pod, replace(known_of(world, pod, seen, settings, waits=False), many=True)) for pod in new]
        return [
            found if found.is_kept or found.unknown else replace(found, copies=_let_in(world, pod, count))
            for pod, found in alone
        ]
    in_turn = [(pod, True) for pod in _in_turn(world, waiting)] + [(pod, False) for pod in _in_turn(world, new)]
    kept_groups: dict[GroupKey, str] = {}
    anyway = ((pod.uid, known_of(world, pod, seen, settings, waits=False)) for pod, _ in in_turn)
    hindered = {uid for uid, found in anyway if found.refused or found.reasons}  # whatever their quota lets in
    kept: dict[str, PodAssessment] = {}
    while True:
        assessed: dict[str, PodAssessment] = {}
        placed: dict[str, _Before] = {}
        for pod, waits in in_turn:
            before = placed.setdefault(pod.namespace, _Before(kept=hindered))
            found = kept.get(pod.uid) or known_of(world, pod, seen, settings, waits=waits, before=before)
            group = _group_of(world, pod)
            if group in kept_groups and not found.is_kept:
                found = replace(found, reasons=(kept_groups[group],))
            assessed[pod.uid] = found
            if not found.is_kept:
                before.counted.update(counted_for_quotas(world, pod))
                before.unknown += bool(found.unknown)
                before.there.add(pod.uid)
        more = _groups_kept(world, [pod for pod, _ in in_turn if assessed[pod.uid].is_kept])
        if more.keys() <= kept_groups.keys():
            return list(assessed.values())
        new_groups = more.keys() - kept_groups.keys()
        kept |= {pod.uid: assessed[pod.uid] for pod, _ in in_turn if _is_of(world, pod, new_groups, assessed)}
        kept_groups = more | kept_groups


def _in_turn(world: World, pods: Sequence[Pod]) -> list[Pod]:
    """Return pods by priority, those that are placed together when the first of them has its turn."""
    priority = world.engine.groups.priority
    turns: dict[object, list[Pod]] = {}
    for pod in sorted(pods, key=lambda pod: -priority(pod)):
        turns.setdefault(_group_of(world, pod) or pod.uid, []).append(pod)
    return [pod for together in turns.values() for pod in together]


def _group_of(world: World, pod: Pod) -> GroupKey | None:
    """Return the group with others of which a pod is placed; None where it is placed by itself."""
    said = world.engine.groups.membership(pod)
    if said is None or said.problem or not world.engine.groups.status(said.key).needed:
        return None
    return said.key


def _is_of(world: World, pod: Pod, groups: Collection[GroupKey], assessed: Mapping[str, PodAssessment]) -> bool:
    """Tell whether a pod is of one of some groups, and is kept for a reason of its own."""
    return assessed[pod.uid].is_kept and _group_of(world, pod) in groups


def _groups_kept(world: World, kept: Sequence[Pod]) -> dict[GroupKey, str]:
    """Say of each group why none of it is placed, where so many of it are kept that fewer than it needs are left."""
    by_group: dict[GroupKey, list[str]] = {}
    for pod in kept:
        if group := _group_of(world, pod):
            by_group.setdefault(group, []).append(pod.name)
    found: dict[GroupKey, str] = {}
    for group, names in by_group.items():
        status = world.engine.groups.status(group)
        if len(status.waiting) - len(names) < status.needed:
            found[group] = (
                f"it is placed together with others of group {group}, of which {status.needed} are needed at once,"
                f" and {few(names, 'pods')} {'is' if len(names) == 1 else 'are'} kept waiting"
            )
    return found


def _let_in(world: World, pod: Pod, count: int) -> int:
    """Return how many copies of a pod the quotas of its namespace let in, up to a number."""
    asked = counted_for_quotas(world, pod)
    left = (
        (report.limit - report.used) // asked[report.resource]
        for report in quotas_of(world, pod.namespace)
        if report.resource in asked
    )
    return min([count, *left])


def show_known(found: Sequence[PodAssessment], output: str) -> None:
    """Print it."""
    if output not in FOR_PEOPLE:
        dump([each.as_json() for each in found], output)
    for each in found if output in FOR_PEOPLE else ():
        click.echo(str(each))
