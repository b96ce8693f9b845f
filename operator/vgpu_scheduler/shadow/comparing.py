"""Compare where the pods of another scheduler are with where this scheduler would place them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.predicates import needs_scheduling
from vgpu_scheduler.shadow.records import Choice, Place
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.world.queue_order import placing, queue_of
from vgpu_scheduler.whatif.world.simulation import created


def concerns(world: World, pod: Pod, other_scheduler: str) -> bool:
    """Tell whether a pod belongs to the other scheduler and asks for devices."""
    return pod.scheduler_name == other_scheduler and bool(world.engine.dialects.owners(pod))


def place_of(world: World, pod: Pod) -> Place | None:
    """Return where a pod is bound or announced; None if it has no place."""
    node = world.home_of(pod)
    if not node:
        return None
    uses = world.engine.dialects.uses(msgspec.structs.replace(pod, node_name=node))
    return Place(node, tuple(sorted(uuid for usage in uses.values() for uuid in usage.charges)))


def choose(world: World, pod: Pod) -> Choice:
    """Return this scheduler's decision about a pod in the present cluster, without reserving anything."""
    decision = world.engine.attempts.dry_run(created(world, pod, pod.uid), explain=False)
    placement = decision.placement
    return Choice(None, decision.message) if placement is None else Choice(_place(placement))


def room_for_waiting(world: World, other_scheduler: str) -> Iterator[tuple[Pod, Place]]:
    """Yield the other scheduler's pending pods that fit, all of them together in queue order, with their places."""
    queue = [pod for pod in queue_of(world) if pod.scheduler_name == other_scheduler and needs_scheduling(pod)]
    if not queue:
        return
    with placing(world, queue) as fitting:
        for pod in fitting:
            reservation = world.engine.state.reservation(pod.uid)
            if reservation is not None and reservation.placement is not None and reservation.placement.dialect:
                yield pod, _place(reservation.placement)


def _place(placement: Placement) -> Place:
    cards = {assigned.uuid for container in placement.containers for assigned in container}
    return Place(placement.node, tuple(sorted(cards)))
