"""What keeps a pod waiting that moves of other pods do not change."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.engine import QuotaReport
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Claim, Decision, Outcome, PodClaims, QuotaResource
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.reasons.groups import not_moved
from vgpu_scheduler.whatif.world.world import World

__all__ = ["held_by"]


def held_by(world: World, pod: Pod, decision: Decision) -> str:
    """Say in one sentence what holds a pod whatever is moved; empty where nothing is known that does.

    Parameters
    ----------
    decision
        What becomes of it now.
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


def _quotas(world: World, pod: Pod) -> Iterator[tuple[QuotaReport, int, bool]]:
    """Yield the limits of a namespace that leave too little for a pod, the least that it would add, and if just that.

    Moves leave what a namespace holds as it is.
    """
    engine, claims = world.engine, world.engine.algorithm.classes.claims(pod)
    for report in engine.quota_limits.reports(pod.namespace, engine.state) if claims else ():
        exact = engine.quota_limits.asked(report.resource, claims)
        least = exact or _least(world, claims, report.resource)
        if least > report.limit - report.used:
            yield report, least, bool(exact)


def _least(world: World, claims: PodClaims, resource: str) -> int:
    """Return what a claim in parts of a card takes of the smallest card that there is; 0 where nothing is so."""
    found = 0
    for container in claims:
        dialect = world.engine.dialects[container.dialect]
        about = dialect.allocation.quota_resources.get(resource)
        if about is None or about.of_card:
            continue
        listed = world.listed_devices(dialects=(dialect,))
        totals = [device.total for _, _, device in listed if device.vendor == about.vendor]
        for claim in container.claims if totals else ():
            if claim.vendor == about.vendor:
                found = max(found, min(_amount(claim, about, total) for total in totals))
    return found


def _amount(claim: Claim, about: QuotaResource, total: tuple[int, ...]) -> int:
    return claim.count * claim.on(total)[about.dimension]
