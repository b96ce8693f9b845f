"""What others of a pod's group ask of the quotas of their namespace: the pod is placed with them, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Claim, ContainerClaims, PodClaims
from vgpu_scheduler.whatif.world.world import World

__all__ = ["OtherMembers", "other_members_of", "with_some_memory"]


@dataclass(frozen=True, slots=True)
class OtherMembers:
    """The others of a group that are placed at once with a pod: those that ask least, as many as are needed.

    Attributes
    ----------
    group
        Which group.
    number
        How many they are.
    asked
        What they count for in quotas at least, by resource.
    depends
        The resources of which they count for more on a larger card.
    units
        What the amounts are of, by resource.
    """

    group: str
    number: int
    asked: Mapping[str, int]
    depends: frozenset[str]
    units: Mapping[str, str]

    def __str__(self) -> str:
        """Word what they ask for; empty where that is nothing."""
        sums = ", ".join(
            f"{'more than ' if resource in self.depends else ''}{amount} {self.units[resource]} of limits.{resource}"
            for resource, amount in self.asked.items()
            if amount
        )
        others = f"another pod of its group {self.group} asks"
        if self.number > 1:
            others = f"{self.number} other pods of its group {self.group} ask"
        return f"it is placed at once with others, and {others} for {sums}" if sums else ""


def other_members_of(
    world: World, pod: Pod, placed: Collection[str] = (), kept: Collection[str] = ()
) -> OtherMembers | None:
    """Return the others that a pod is placed at once with; None where it is placed by itself, or they are not there.

    Parameters
    ----------
    world
        All pods of the namespace are in it.
    placed, kept
        The UIDs of pods that have their places by then, and of those that will have none.
    """
    engine = world.engine
    said = engine.groups.membership(pod)
    if said is None or said.problem:
        return None
    group = engine.groups.status(said.key)
    waiting = {each.uid: each for each in group.waiting}
    needed = group.needed - 1 - len(waiting.keys() & set(placed))
    others = [each for uid, each in waiting.items() if uid not in {pod.uid, *placed, *kept}]
    if needed <= 0 or len(others) < needed:
        return None
    claims = [engine.algorithm.classes.claims(each) for each in others]
    asked: dict[str, int] = {}
    depends: set[str] = set()
    units: dict[str, str] = {}
    for report in engine.quota_limits.report(engine.state):
        if report.namespace == pod.namespace:
            least = sorted(engine.quota_limits.asked(report.resource, with_some_memory(world, each)) for each in claims)
            asked[report.resource] = sum(least[:needed])
            units[report.resource] = report.unit
            if any(engine.quota_limits.depends_on_card(report.resource, each) for each in claims):
                depends.add(report.resource)
    return OtherMembers(str(said.key), needed, asked, frozenset(depends), units)


def with_some_memory(world: World, claims: PodClaims) -> PodClaims:
    """Return claims with one step at least of the memory that depends on the card: less it is on none."""
    return tuple(_with_some_memory(world, each) for each in claims)


def _with_some_memory(world: World, container: ContainerClaims) -> ContainerClaims:
    memory = world.engine.dialects[container.dialect].inventory.memory

    def some(claim: Claim) -> Claim:
        amounts = (*claim.amounts[:memory], max(claim.amounts[memory], 1), *claim.amounts[memory + 1 :])
        return replace(claim, amounts=amounts)

    return replace(container, claims=tuple(map(some, container.claims)))
