"""Where the pods of another scheduler stand in a world, and where this one would put them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.predicates import needs_scheduling
from vgpu_scheduler.shadow.records import Choice, Place
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.world.queue_order import placed, queue_of
from vgpu_scheduler.whatif.world.simulation import created


def concerns(world: World, pod: Pod, beside: str) -> bool:
    """Tell whether a pod is one that a scheduler places on cards."""
    return pod.scheduler_name == beside and bool(world.engine.dialects.owners(pod))


def place_of(world: World, pod: Pod) -> Place | None:
    """Return where a pod is, or will be as its scheduler has announced; None if it has no place."""
    node = world.home_of(pod)
    if not node:
        return None
    uses = world.engine.dialects.uses(msgspec.structs.replace(pod, node_name=node))
    return Place(node, tuple(sorted(uuid for usage in uses.values() for uuid in usage.charges)))


def choose(world: World, pod: Pod) -> Choice:
    """Return what this scheduler does with a pod on the cluster as it is; nothing is left of it."""
    decision = world.engine.attempts.ask(created(world, pod, pod.uid), explain=False)
    placement = decision.placement
    return Choice(None, decision.message) if placement is None else Choice(_place(placement))


def room_for_waiting(world: World, beside: str) -> Iterator[tuple[Pod, Place]]:
    """Yield the pods of a scheduler that wait and would fit, all at once, each in its turn, with their places."""
    queue = [pod for pod in queue_of(world) if pod.scheduler_name == beside and needs_scheduling(pod)]
    if not queue:
        return
    with placed(world, queue) as fitting:
        for pod in fitting:
            held = world.engine.state.reservation(pod.uid)
            if held is not None and held.placement is not None and held.placement.dialect:
                yield pod, _place(held.placement)


def _place(placement: Placement) -> Place:
    cards = {assigned.uuid for container in placement.containers for assigned in container}
    return Place(placement.node, tuple(sorted(cards)))
