"""Causes that keep a pod waiting whatever other pods are moved."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.engine import QuotaReport, holds_for_others
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Claim, Decision, Outcome, PodClaims, QuotaResource
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.reasons.groups import not_moved
from vgpu_scheduler.whatif.world.world import World


def held_by(world: World, pod: Pod, decision: Decision) -> str:
    """Say in one sentence what keeps a pod waiting whatever is moved; empty if nothing is known to.

    Parameters
    ----------
    decision
        The present decision about the pod.
    """
    if reason := gated(pod):
        return f"it is {reason}"
    if decision.outcome in {Outcome.REFUSED, Outcome.ERROR}:
        return decision.message
    group = world.engine.attempts.gang_status(pod)
    if group is not None and group.has_quorum:
        return not_moved(group)
    over = list(_quotas(world, pod))
    if over:
        asked = ", ".join(
            f"it asks for {'at least ' * (not exact)}{least} {r.unit}, and {r} are used" for r, least, exact in over
        )
        return f"a quota of namespace {pod.namespace} does not let it in: {asked}"
    if not decision.another_node_helps:
        return decision.message
    return ""


def kept_for_others(world: World, pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the nodes with room that is kept for other pods, and that the pod must not use, each with that pod."""
    algorithm = world.engine.algorithm
    held = (hold for node in world.engine.state.holds.nodes() for hold in holds_for_others(algorithm, pod, node))
    return tuple((hold.node, hold.reservation.pod) for hold in held)


def _quotas(world: World, pod: Pod) -> Iterator[tuple[QuotaReport, int, bool]]:
    """Yield the quotas that leave too little for a pod, with the least amount it would add, and whether that is exact.

    Moves do not change what a namespace uses.
    """
    engine, claims = world.engine, world.engine.algorithm.classes.claims(pod)
    for report in engine.quota_limits.reports(pod.namespace, engine.state) if claims else ():
        exact = engine.quota_limits.asked(report.resource, claims)
        least = exact or _least(world, claims, report.resource)
        if least > report.limit - report.used:
            yield report, least, bool(exact)


def _least(world: World, claims: PodClaims, resource: str) -> int:
    """Return what a claim for a share of a card takes of the smallest card; 0 if the quota does not depend on cards."""
    found = 0
    for container in claims:
        dialect = world.engine.dialects[container.dialect]
        limited = dialect.allocation.quota_resources.get(resource)
        if limited is None or limited.of_card:
            continue
        listed = world.listed_devices(dialects=(dialect,))
        totals = [device.total for _, _, device in listed if device.vendor == limited.vendor]
        for claim in container.claims if totals else ():
            if claim.vendor == limited.vendor:
                found = max(found, min(_amount(claim, limited, total) for total in totals))
    return found


def _amount(claim: Claim, limited: QuotaResource, total: tuple[int, ...]) -> int:
    return claim.count * claim.on(total)[limited.dimension]
