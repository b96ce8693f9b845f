"""Room that is kept for pods that have waited for long: what others leave on a node by themselves is theirs.

Without it smaller pods take what becomes free again and again, and one that needs a whole card waits for ever. Nobody
is evicted for it: the room is where the fewest have to end, and it grows as they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, counted
from vgpu_scheduler.state import Hold

__all__ = ["HELD_FOR", "WaitingHolds"]

HELD_FOR: Final = 3600.0
"""Seconds for which room is kept at most; after that its pod waits as long as before until some is kept again."""


class WaitingHolds:
    """Keeps room for pods that have waited for as long as their policy says, for one at a time of each maker's cards.

    Parameters
    ----------
    cycle
        Knows what pods claim, and under which policy.
    preemptions
        Keeps the room, and knows who would have to end.
    """

    def __init__(self, cycle: Cycle, preemptions: Preemptions) -> None:
        self._cycle = cycle
        self._state = cycle.state
        self._preemptions = preemptions
        self._ended: dict[str, float] = {}
        """When room was given up that was kept for so long that others are to have their turn, by UID."""

    def keep_for(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Return the decision about a pod that fits nowhere with what is kept for it from now on, if anything is."""
        after = self._waits_for(pod)
        if decision.outcome is not Outcome.UNSCHEDULABLE or decision.preemption is not None or after is None:
            self._give_up(pod.uid)
            return decision
        since = self._preemptions.waiting.get(pod.uid)
        if since is None and self._state.holds.get(pod.uid) is not None:
            return decision  # others were evicted from it
        if since is not None and now < since + HELD_FOR and self._preemptions.is_possible(pod.uid):
            return self._told(decision, pod.uid, since + HELD_FOR)
        if since is not None:
            self._give_up(pod.uid)
            self._ended[pod.uid] = now
        due = max(self._preemptions.evaluator.waiting_since(pod), self._ended.get(pod.uid, -after)) + after
        if now < due:
            return _again_at(decision, due)
        others = [until for uid, until in self._until() if self._shares_maker(pod, uid)]
        if others:
            return _again_at(decision, max(others))
        room = self._preemptions.room_once_left(pod)
        if room is None:
            return decision
        self._preemptions.keep_while_waiting(room, now)
        self._ended.pop(pod.uid, None)
        return self._told(decision, pod.uid, now + HELD_FOR)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        self._ended.pop(uid, None)

    def _waits_for(self, pod: Pod) -> float | None:
        """Return after how many seconds room is kept for a pod; None if it never is."""
        return self._cycle.classes.policy(pod).groups.hold_after

    def _until(self) -> Iterator[tuple[str, float]]:
        """Yield the pods for which room is kept, with the time until which it is."""
        return ((uid, since + HELD_FOR) for uid, since in self._preemptions.waiting.items())

    def _shares_maker(self, pod: Pod, uid: str) -> bool:
        other = self._state.pod(uid)
        return other is not None and not self._makers(pod).isdisjoint(self._makers(other))

    def _makers(self, pod: Pod) -> frozenset[str]:
        """Return whose cards a pod claims; those that claim none share what is none."""
        claimed = self._cycle.classes.claimed(pod)
        makers = () if claimed is None else claimed.claims
        return frozenset(claim.vendor for container in makers for claim in container.claims) or frozenset({""})

    def _give_up(self, uid: str) -> None:
        if uid in self._preemptions.waiting:
            self._preemptions.withdraw(uid)

    def _told(self, decision: Decision, uid: str, until: float) -> Decision:
        """Return a decision that says where room is kept for its pod, which stands for itself from now on."""
        hold = self._state.holds.get(uid)
        assert hold is not None, "room is kept for the pod"
        message = f"{decision.message} {_said(hold, self._preemptions.still_on(hold))}"
        return _again_at(replace(decision, message=message, equivalence=None, per_node=False), until)


def _said(hold: Hold, there: int) -> str:
    left = f"until {counted(there, 'pod')} there {'has' if there == 1 else 'have'} ended" if there else "now"
    return f"room on node {hold.node} is kept for it, which is enough {left}."


def _again_at(decision: Decision, moment: float) -> Decision:
    """Return a decision that comes out differently from some moment on at the latest."""
    return replace(decision, again_at=moment if decision.again_at is None else min(moment, decision.again_at))
