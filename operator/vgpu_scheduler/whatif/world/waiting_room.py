"""Room that the scheduler keeps for pods that have waited for long, in questions that do not place these pods."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine import WaitingHold
from vgpu_scheduler.engine.waiting_holds import by_group
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.world.queue_order import placing, queue_of
from vgpu_scheduler.whatif.world.world import World

_NOW: Final = 0.0


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Room for a pod, or for pods of a group together, that have waited for long.

    Attributes
    ----------
    pods
        The pods, as namespace and name.
    nodes
        The nodes with the room.
    """

    pods: tuple[str, ...]
    nodes: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return self.pods[0].partition("/")[0]


def keep_waiting_room(world: World, besides: Collection[str] = ()) -> list[KeptRoom]:
    """Keep the room that the scheduler keeps for waiting pods under ``groups.holdAfter`` of their policies.

    The pods that wait are tried in queue order, as the scheduler tries them. Those that then have room kept, or fit at
    last, keep that room; the others leave nothing behind.

    Parameters
    ----------
    besides
        The UIDs of waiting pods that the question places itself, for which no room is kept beforehand.
    """
    classes, kept = world.engine.algorithm.classes, world.engine.attempts.waiting_holds
    waiting = queue_of(world)
    if all(pod.uid in besides or classes.policy(pod).groups.hold_after is None for pod in waiting):
        return []
    with placing(world, waiting) as placed:
        found = [*kept.current()]
        for pods in _together(world, placed):
            found += kept.of_placed(pods, _NOW)
    found = [each for each in found if each.together.isdisjoint(besides)]
    kept.keep(found)
    return _described(found)


def _together(world: World, pods: Collection[Pod]) -> list[list[Pod]]:
    """Return pods by the group with which they are placed."""
    found: dict[Hashable, list[Pod]] = {}
    for pod in pods:
        found.setdefault(world.engine.groups.key_of(pod.uid) or pod.uid, []).append(pod)
    return list(found.values())


def _described(holds: Collection[WaitingHold]) -> list[KeptRoom]:
    return [
        KeptRoom(
            tuple(sorted(each.hold.reservation.pod for each in together)),
            tuple(sorted({each.hold.node for each in together})),
        )
        for together in by_group(holds)
    ]
