"""The quota that other members of a pod's group need, since the gang is placed as a whole or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.engine import QuotaReport, counted_at_once
from vgpu_scheduler.groups import membership
from vgpu_scheduler.kube import QUOTA_LIMITS, Pod
from vgpu_scheduler.model import Claim, ContainerClaims, PodClaims
from vgpu_scheduler.whatif.world.world import World


@dataclass(frozen=True, slots=True)
class OtherMembers:
    """The members placed at once with a pod: as many as the group needs, those that ask for least.

    Attributes
    ----------
    group
        The group's name.
    number
        The number of these members.
    asked
        The least that they add to quotas together, by resource.
    depends
        The resources of which they use more on a larger card, or of which it is not known how much they use.
    units
        The units of the amounts, by resource.
    """

    group: str
    number: int
    asked: Mapping[str, int]
    depends: frozenset[str]
    units: Mapping[str, str]

    def __str__(self) -> str:
        """Describe what they ask for; empty if nothing."""
        sums = ", ".join(
            f"{'more than ' if name in self.depends else ''}{amount} {self.units[name]} of {QUOTA_LIMITS}{name}"
            for name, amount in self.asked.items()
            if amount
        )
        others = f"another pod of its group {self.group} asks"
        if self.number > 1:
            others = f"{self.number} other pods of its group {self.group} ask"
        if self.depends and not sums:
            return f"{self.number + 1} pods of its group {self.group} count at once"
        return f"it is placed at once with others, and {others} for {sums}" if sums else ""


def other_members_of(
    world: World,
    pod: Pod,
    placed: Collection[str] = (),
    kept: Collection[str] = (),
    reports: Iterable[QuotaReport] | None = None,
) -> OtherMembers | None:
    """Return the members placed at once with a pod; None if the pod is placed by itself, or members are missing.

    Parameters
    ----------
    world
        A world with all pods of the namespace.
    placed, kept
        The UIDs of pods that will be placed by then, and of pods that will not.
    reports
        The quotas of the pod's namespace; by default those of the world.
    """
    engine = world.engine
    membership = engine.groups.membership(pod)
    if membership is None or membership.problem:
        return None
    group = engine.groups.status(membership.key)
    waiting = {each.uid: each for each in group.waiting}
    needed = group.needed - 1 - len(waiting.keys() & set(placed))
    others = [each for uid, each in waiting.items() if uid not in {pod.uid, *placed, *kept}]
    if needed <= 0 or len(others) < needed:
        return None
    claims = [engine.algorithm.classes.claims(each) for each in others]
    asked: dict[str, int] = {}
    depends: set[str] = set()
    units: dict[str, str] = {}
    for report in engine.quota_limits.report(engine.state) if reports is None else reports:
        if report.namespace == pod.namespace:
            least = sorted(engine.quota_limits.asked(report.resource, with_some_memory(world, each)) for each in claims)
            asked[report.resource] = sum(least[:needed])
            units[report.resource] = report.unit
            if any(engine.quota_limits.depends_on_card(report.resource, each) for each in claims):
                depends.add(report.resource)
    return OtherMembers(str(membership.key), needed, asked, frozenset(depends), units)


def other_members_in(world: World, pod: Pod, event: str, reports: Iterable[QuotaReport]) -> OtherMembers | None:
    """Return the members placed at once with a pod according to its event; None if it names none.

    Parameters
    ----------
    world
        A world with the pods of the namespace that are known: there may be none.
    reports
        The quotas that the event names.
    """
    number, member = counted_at_once(event), membership(pod)
    if number is None or member is None:
        return None
    units = {report.resource: report.unit for report in reports}
    unknown = OtherMembers(str(member.key), number - 1, dict.fromkeys(units, 0), frozenset(units), units)
    return other_members_of(world, pod, reports=reports) or unknown


def with_some_memory(world: World, claims: PodClaims) -> PodClaims:
    """Return claims with at least one unit of memory where the amount depends on the card, as a lower bound."""
    return tuple(_with_some_memory(world, each) for each in claims)


def _with_some_memory(world: World, container: ContainerClaims) -> ContainerClaims:
    memory = world.engine.dialects[container.dialect].inventory.memory

    def some(claim: Claim) -> Claim:
        amounts = (*claim.amounts[:memory], max(claim.amounts[memory], 1), *claim.amounts[memory + 1 :])
        return replace(claim, amounts=amounts)

    return replace(container, claims=tuple(map(some, container.claims)))
