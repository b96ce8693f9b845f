"""What the objects of one namespace tell about a waiting pod, for readers who may see no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.advice.corrections import corrected, refusal_of
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.tenant_advice.group_quotas import OtherMembers, with_some_memory
from vgpu_scheduler.whatif.tenant_advice.quota_statuses import limiting
from vgpu_scheduler.whatif.tenant_advice.remedies import gate_remedies
from vgpu_scheduler.whatif.world.world import World

_NOTHING: Final[Mapping[str, int]] = {}


def as_meant(world: World, pod: Pod) -> Pod:
    """Return a pod that the world has read as it was probably meant: with its mistakes corrected."""
    meant = corrected(world, world.written(pod))
    return world.pod(meant.written, again=True) if meant.changes else pod


def known_problems(world: World, pod: Pod, namespace_objects: NamespaceObjects) -> Iterator[str]:
    """Yield what to do about problems that keep a pod from being placed on any node."""
    meant = corrected(world, world.written(pod))
    if meant.changes:
        then = refusal_of(world, meant.written)
        yield f"{say(meant.and_then())}{then and f' (then {then})'}"
    yield from map(say, gate_remedies(pod))
    waits = pod.uid in world.pending
    message = pod.scheduled_condition.message if waits and pod.scheduled_condition is not None else ""
    yield from namespace_objects.volume_claim_problems(world.written(pod), [pod.uid] if waits else (), message)


def quotas_in_the_way(
    world: World, pod: Pod, beside: Mapping[str, int] = _NOTHING, other_members: OtherMembers | None = None
) -> tuple[QuotaReport, ...]:
    """Return the quotas that limit what a pod asks for, if they keep the pod waiting on every node; else nothing.

    Parameters
    ----------
    world
        A world with the quotas and all pods of the namespace.
    beside
        What pods outside the world will use by then, by resource.
    other_members
        The group members placed at once with the pod, if any.
    """
    engine, with_it = world.engine, other_members.asked if other_members is not None else _NOTHING
    claims = engine.algorithm.classes.claims(pod)
    reports = limiting(world, claims, quotas_of(world, pod.namespace, beside), with_it)
    least = with_some_memory(world, claims)

    def is_over(report: QuotaReport) -> bool:
        asked = engine.quota_limits.asked(report.resource, least) + with_it.get(report.resource, 0)
        return report.used + asked > report.limit

    return reports if any(map(is_over, reports)) else ()


def quotas_of(world: World, namespace: str, beside: Mapping[str, int] = _NOTHING) -> tuple[QuotaReport, ...]:
    """Return the quota status of a namespace; parameters as for :func:`quotas_in_the_way`."""
    engine = world.engine
    reports = engine.quota_limits.reports(namespace, engine.state)
    return tuple(replace(report, used=report.used + beside.get(report.resource, 0)) for report in reports)


def counted_for_quotas(world: World, pod: Pod) -> dict[str, int]:
    """Return what a pod adds to each quota on any node, by resource, without zeros.

    Memory that depends on the card (a percentage, or a whole card) is left out.
    """
    quotas, claims = world.engine.quota_limits, world.engine.algorithm.classes.claims(pod)
    resources = (report.resource for report in quotas_of(world, pod.namespace))
    return {name: asked for name in resources if (asked := quotas.asked(name, claims))}


def left_to_cards(world: World, pod: Pod) -> tuple[str, ...]:
    """Return the resources with a quota of which the pod's amount depends on the card."""
    quotas, claims = world.engine.quota_limits, world.engine.algorithm.classes.claims(pod)
    resources = (report.resource for report in quotas_of(world, pod.namespace))
    return tuple(name for name in resources if quotas.depends_on_card(name, claims))
