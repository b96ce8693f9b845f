"""Remedy for a pod whose resource names several dialects know: list another dialect first in the settings."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.dialects import ClaimError, Dialect, Dialects
from vgpu_scheduler.engine import EquivalenceClasses, SchedulingAlgorithm
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.world.world import World


def list_other_dialect_first(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Name the dialects by which the pod would fit if they were listed first, and no other pod would be refused.

    The pod's node is not predicted, since other pods would be read differently, too.
    """
    world = waiting.world
    asked = waiting.ours.spec.resource_names.keys()
    dialects = list(world.engine.dialects)
    for number, dialect in enumerate(dialects):
        known = asked & dialect.claims.resources
        earlier = [each for each in dialects[:number] if known & each.claims.resources]
        if not earlier or not waiting.is_claim(dialect, waiting.written):
            continue
        first = dialects.index(earlier[0])
        after = dialects[first:number]
        if any(_has_cards_of(world, each, dialect) for each in after):
            continue
        order = Dialects([*dialects[:first], dialect, *after, *dialects[number + 1 :]])
        if _refuses_others(world, order) or not waiting.with_algorithm(_algorithm(world, order)).node():
            continue
        shared = ", ".join(sorted(known & earlier[0].claims.resources))
        text = (
            f"have the setting dialects list {dialect.name} before {earlier[0].name}: the first dialect that has "
            f"{shared} is used, and nodes have cards of {dialect.name}"
        )
        yield Remedy(RemedyType.CHANGE_SETTING, do(text), "")


def _has_cards_of(world: World, owner: Dialect, other: Dialect) -> bool:
    """Tell whether nodes have cards of a dialect that stand for a resource which another dialect knows, too.

    If the other dialect were listed first, pods that ask for such cards with further resources would be refused.
    """
    devices, live = owner.inventory.device_resources, world.engine.state.matrix(owner.name).live_vendors()
    shared = owner.claims.resources & other.claims.resources
    return bool(live) and any(name not in devices or devices[name].vendor in live for name in shared)


def _refuses_others(world: World, order: Dialects) -> bool:
    """Tell whether a pod that one dialect reads now would have names of several dialects in another order."""
    dialects = world.engine.dialects
    return any(_is_refused(order, pod) and not _is_refused(dialects, pod) for pod in world.present_pods)


def _is_refused(dialects: Dialects, pod: Pod) -> bool:
    try:
        dialects.of_waiting(pod)
    except ClaimError:
        return True
    return False


def _algorithm(world: World, order: Dialects) -> SchedulingAlgorithm:
    """Return an algorithm that reads pods by the dialects in another order, on the same cluster."""
    engine = world.engine
    classes = EquivalenceClasses(engine.state, order, engine.policies, engine.quota_limits)
    return SchedulingAlgorithm(classes, engine.closed_nodes, engine.storage, engine.groups.priority)
