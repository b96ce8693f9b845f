"""The pods that a pod is placed together with, as they were placed when it was decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vgpu_scheduler.engine import GroupMembers, GroupStatus
from vgpu_scheduler.model import Decision
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.world import World

__all__ = ["other_members_placed"]


@contextmanager
def other_members_placed(world: World, group: GroupStatus, answer: PodResult) -> Iterator[bool]:
    """Have as many others of its group be placed as when a pod was decided, the hardest to place first.

    Yields
    ------
    bool
        Whether nodes say of the pod what they said then: else nobody knows which others had places.
    """
    algorithm, reserver = world.engine.algorithm, world.engine.attempts.reserver
    ours = created(world, answer.pod, answer.pod.uid)
    before, placed = reserver.before(), list[Decision]()
    others = (
        [pod for pod in GroupMembers(algorithm, group).hardest_first if pod.uid != ours.uid]
        if group.schedules_as_gang
        else []
    )
    try:
        same = not group.schedules_as_gang or _is_same(algorithm.decide(ours, explain=True), answer.decision)
        for other in others:
            if same:
                break
            decision = algorithm.decide(other)
            if decision.placement is not None:
                reserver.reserve(other, decision)
                placed.append(decision)
                same = _is_same(algorithm.decide(ours, explain=True), answer.decision)
        yield same
    finally:
        reserver.undo(placed, before)


def _is_same(found: Decision, other: Decision) -> bool:
    return (found.placement, found.reasons, found.verdicts, found.near_miss) == (
        other.placement,
        other.reasons,
        other.verdicts,
        other.near_miss,
    )
