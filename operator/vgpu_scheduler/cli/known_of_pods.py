"""What can be said of pods without the nodes: whether they are refused as they are, and how their quota stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.schedulers import is_ours, left_to_whom
from vgpu_scheduler.cli.cluster.view import ClusterView
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    NamespaceObjects,
    World,
    ask,
    claims_of,
    counted_for_quotas,
    is_workload,
    known_problems,
    quotas_in_the_way,
    quotas_of,
)
from vgpu_scheduler.whatif.groups import group_remedies
from vgpu_scheduler.whatif.simulation import created

__all__ = ["Known", "known_of", "known_of_all", "show_known"]

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
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
        How many copies its quota lets in, up to those that were asked about; None where one pod was.
    """

    pod: str
    refused: str
    quota: str
    exceeded: bool
    reasons: tuple[str, ...] = ()
    copies: int | None = None

    @property
    def is_kept(self) -> bool:
        """Whether something that is known keeps it from being placed."""
        return bool(self.refused or self.exceeded or self.reasons)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {name: value for name, value in asdict(self).items() if name != "copies" or value is not None}

    def __str__(self) -> str:
        """Word it."""
        said = [self.refused] if self.refused else []
        said += [f"its quota keeps it waiting ({self.quota})"] if self.exceeded else []
        said += self.reasons
        if said:
            return f"{self.pod}: {'; '.join(said)}"
        who = "it" if self.copies is None else "1 copy" if self.copies == 1 else f"{self.copies} copies"
        nothing = f"nothing that is known keeps {who} from being placed"
        return f"{self.pod}: {nothing}{f' ({self.quota})' if self.quota else ''}"


def known_of(
    world: World,
    pod: Pod,
    seen: NamespaceObjects,
    settings: Settings,
    *,
    waits: bool,
    beside: Mapping[str, int] | None = None,
) -> Known:
    """Return what is known of a pod in a world without nodes.

    Parameters
    ----------
    seen
        The objects of its namespace.
    waits
        Whether it is there, names its scheduler itself, and may have a condition.
    beside
        What pods of its namespace that are placed before it count for in quotas, by resource.
    """
    beside = beside or {}
    decision = ask(world, pod).decision
    refused = ("; ".join(decision.reasons) or decision.message) if decision.outcome is Outcome.REFUSED else ""
    others = waits and not is_ours(pod.scheduler_name, settings)  # our quotas do not hold their pods
    exceeded = not refused and not others and bool(quotas_in_the_way(world, pod, beside))
    reasons = [*known_problems(world, pod, seen), *(() if refused else group_remedies(world, pod))]
    if waits:
        if others:
            reasons.insert(0, left_to_whom(pod.scheduler_name, settings).rstrip("."))
        condition = pod.scheduled_condition
        if condition is not None and condition.message and condition.message.strip(". ") not in refused:
            reasons.append(f"its condition says: {condition.message}")
    return Known(pod.key, refused, _standing(world, pod, beside), exceeded, tuple(reasons))


def _standing(world: World, pod: Pod, beside: Mapping[str, int]) -> str:
    """Say how the namespace of a pod stands with its quotas; empty without limits."""
    told = ", ".join(map(str, quotas_of(world, pod.namespace, beside)))
    before = " with the pods before it" if any(beside.values()) else ""
    return f"namespace {pod.namespace} uses {told}{before}" if told else ""


def known_of_all(
    world: World,
    view: ClusterView,
    waiting: Sequence[Pod],
    new: Sequence[Pod],
    written: Sequence[Object],
    count: int = 0,
) -> list[Known]:
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
    for pod in new:  # what they say of groups counts, but for copies, of which nobody knows how many there will be
        world.engine.observe_pod(created(world, pod, pod.uid), 0.0)
        if count and not world.engine.groups.problem(pod):
            world.engine.groups.forget(pod.uid)
    if count:
        alone = [(pod, known_of(world, pod, seen, settings, waits=False)) for pod in new]
        return [found if found.is_kept else replace(found, copies=_let_in(world, pod, count)) for pod, found in alone]
    told: list[Known] = []
    beside: dict[str, Counter[str]] = {}
    for pods, waits in ((waiting, True), (new, False)):
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            before = beside.setdefault(pod.namespace, Counter())
            told.append(known_of(world, pod, seen, settings, waits=waits, beside=before))
            if not told[-1].is_kept:
                before.update(counted_for_quotas(world, pod))
    return told


def _let_in(world: World, pod: Pod, count: int) -> int:
    """Return how many copies of a pod the quotas of its namespace let in, up to a number."""
    asked = counted_for_quotas(world, pod)
    left = (
        (report.limit - report.used) // asked[report.resource]
        for report in quotas_of(world, pod.namespace)
        if report.resource in asked
    )
    return min([count, *left])


def show_known(found: Sequence[Known], output: str) -> None:
    """Print it."""
    if output not in FOR_PEOPLE:
        dump([each.as_json() for each in found], output)
    for each in found if output in FOR_PEOPLE else ():
        click.echo(str(each))
