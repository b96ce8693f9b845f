"""What the objects of one namespace tell about a pod that waits, for those who may see no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.advice.corrections import corrected
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.conditions.group_quotas import OtherMembers, with_some_memory
from vgpu_scheduler.whatif.conditions.remedies import gate_remedies
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "counted_for_quotas",
    "known_problems",
    "left_to_cards",
    "quotas_in_the_way",
    "quotas_of",
]


_NOTHING: Final[Mapping[str, int]] = {}


def known_problems(world: World, pod: Pod, seen: NamespaceObjects) -> Iterator[str]:
    """Yield what keeps a pod from being placed whatever the nodes are, as what would have to be done about it."""
    yield from filter(None, [say(corrected(world, world.written(pod)).and_then())])
    yield from map(say, gate_remedies(pod))
    yield from seen.claim_problems(world.written(pod), [pod.uid] if pod.uid in world.pending else ())


def quotas_in_the_way(
    world: World, pod: Pod, beside: Mapping[str, int] = _NOTHING, other_members: OtherMembers | None = None
) -> tuple[QuotaReport, ...]:
    """Return how the namespace of a pod stands, where its quotas keep the pod waiting wherever it would go.

    Parameters
    ----------
    world
        The quotas and all pods of the namespace are in it.
    beside
        What others hold by then that are not in it, by resource.
    other_members
        Those that it is placed at once with, if there are any.
    """
    engine, reports = world.engine, quotas_of(world, pod.namespace, beside)
    claims = engine.algorithm.classes.claims(pod)
    least = with_some_memory(world, claims)
    with_it = other_members.asked if other_members is not None else _NOTHING

    def is_over(report: QuotaReport) -> bool:
        others = with_it.get(report.resource, 0)
        concerned = bool(others) or engine.quota_limits.concerns(report.resource, claims)
        return concerned and report.used + engine.quota_limits.asked(report.resource, least) + others > report.limit

    return reports if any(map(is_over, reports)) else ()


def quotas_of(world: World, namespace: str, beside: Mapping[str, int] = _NOTHING) -> tuple[QuotaReport, ...]:
    """Return how a namespace stands with its quotas; parameters as for :func:`quotas_in_the_way`."""
    engine = world.engine
    reports = engine.quota_limits.reports(namespace, engine.state)
    return tuple(replace(report, used=report.used + beside.get(report.resource, 0)) for report in reports)


def counted_for_quotas(world: World, pod: Pod) -> dict[str, int]:
    """Return how much of each resource with a quota a pod counts for wherever it goes; what is nothing is left out.

    How much memory a share of a card is, or a whole one, depends on the card: that is left out, too.
    """
    quotas, claims = world.engine.quota_limits, world.engine.algorithm.classes.claims(pod)
    resources = (report.resource for report in quotas_of(world, pod.namespace))
    return {name: asked for name in resources if (asked := quotas.asked(name, claims))}


def left_to_cards(world: World, pod: Pod) -> tuple[str, ...]:
    """Return the resources with a quota of which a pod counts for as much as the card that it gets has it be."""
    quotas, claims = world.engine.quota_limits, world.engine.algorithm.classes.claims(pod)
    resources = (report.resource for report in quotas_of(world, pod.namespace))
    return tuple(name for name in resources if quotas.depends_on_card(name, claims))
