"""Reproduce the placements of a pod's group members from when the pod was decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vgpu_scheduler.engine import GroupMembers, GroupStatus
from vgpu_scheduler.model import Decision
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.world import World


@contextmanager
def other_members_placed(world: World, group: GroupStatus, answer: PodResult) -> Iterator[bool]:
    """Place other group members, the hardest first, until the pod's verdicts match its decision; undo it on exit.

    Yields
    ------
    bool
        Whether the verdicts match; otherwise it is unknown which members were placed then.
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
