"""Room that is kept for pods that have waited for long: what others leave on a node by themselves is theirs.

Without it smaller pods take what becomes free again and again, and one that needs a whole card waits for ever. Nobody
is evicted for it: the room is where the fewest have to end, and it grows as they do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.equivalence import Refused
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.preemption.search import VictimSearch
from vgpu_scheduler.engine.preemption.victims import Preemptor
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, counted
from vgpu_scheduler.state import Hold, Phase

__all__ = ["HELD_FOR", "WaitingHolds"]

HELD_FOR: Final = 3600.0
"""Seconds for which room is kept at most; after that its pod waits as long as before until some is kept again."""
_ABOVE_ALL: Final = 2**31
"""Higher than any priority: whoever is there leaves at some time."""


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
        hold, since = self._state.holds.get(pod.uid), self._waiting.get(pod.uid)
        if since is None:
            # Where others were evicted from its room, that is kept until they have left it.
            return decision if hold is not None else self._begin(pod, decision, after, now)
        if now < since + HELD_FOR and self._preemptions.can_be_placed_on(hold):
            return self._told(decision, pod.uid, since + HELD_FOR)
        self._give_up(pod.uid)
        self._ended[pod.uid] = now
        return self._begin(pod, decision, after, now)

    def _begin(self, pod: Pod, decision: Decision, after: float, now: float) -> Decision:
        """Keep room for a pod if it has waited for long enough, and no other one has its turn."""
        due = max(self._preemptions.evaluator.waiting_since(pod), self._ended.get(pod.uid, -after)) + after
        if now < due:
            return _again_at(decision, due)
        others = [since + HELD_FOR for uid, since in self._waiting.items() if self._shares_maker(pod, uid)]
        if others:
            return _again_at(decision, max(others))
        room = self._room_once_left(pod)
        if room is None:
            return decision
        self._state.keep(room)
        self._waiting[pod.uid] = now
        self._ended.pop(pod.uid, None)
        return self._told(decision, pod.uid, now + HELD_FOR)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        self._ended.pop(uid, None)

    def _waits_for(self, pod: Pod) -> float | None:
        """Return after how many seconds room is kept for a pod; None if it never is."""
        return self._cycle.classes.policy(pod).groups.hold_after

    @property
    def _waiting(self) -> dict[str, float]:
        return self._preemptions.waiting

    def _room_once_left(self, pod: Pod) -> Hold | None:
        """Return the room that a pod would have where the fewest pods have to end by themselves; None if nowhere."""
        pod_class, on_node = self._cycle.classes.of(pod), self._cycle.on_node
        if isinstance(pod_class, Refused):
            return None
        closed = {hold.node for hold in self._state.holds} | set(on_node.closed_to(pod_class, pod))
        search = VictimSearch(self._state, self._cycle.nominated, lambda: (), self._ends_by_itself)
        above_all = msgspec.structs.replace(pod, priority=_ABOVE_ALL)
        preemptor = Preemptor(above_all, pod_class.node, pod_class.cluster, pod_class.limited)
        filtered = self._cycle.filter(pod, pod_class)
        found = search.best(preemptor, filtered, closed, self._preemptions.evaluator.order).victims
        if found is None:
            return None
        there = [held for each in found.pods if (held := self._state.reservation(each.uid)) is not None]
        placement = on_node.fits_once_gone(pod, found.node, there)
        return None if placement is None else self._preemptions.room_for(pod, placement, [held.uid for held in there])

    def _ends_by_itself(self, pod: Pod) -> bool:
        """Tell whether a pod leaves its room at some time, and nobody puts another one in its place at once."""
        held = self._state.reservation(pod.uid)
        if held is None or held.closes_cards or held.phase is Phase.ASSUMED:
            return False
        return not (pod.is_static or pod.is_of_daemon_set)

    def _shares_maker(self, pod: Pod, uid: str) -> bool:
        other = self._state.pod(uid)
        return other is not None and not self._makers(pod).isdisjoint(self._makers(other))

    def _makers(self, pod: Pod) -> frozenset[str]:
        """Return whose cards a pod claims; those that claim none share what is none."""
        claimed = self._cycle.classes.claimed(pod)
        makers = () if claimed is None else claimed.claims
        return frozenset(claim.vendor for container in makers for claim in container.claims) or frozenset({""})

    def _give_up(self, uid: str) -> None:
        if uid in self._waiting:
            self._preemptions.withdraw(uid)

    def _told(self, decision: Decision, uid: str, until: float) -> Decision:
        """Return a decision that says where room is kept for its pod, which stands for itself from now on."""
        hold = self._state.holds.get(uid)
        assert hold is not None, "room is kept for the pod"
        there = (self._state.reservation(leaving) for leaving in hold.leaving)
        left = sum(held is not None and held.node == hold.node for held in there)
        message = f"{decision.message} {_said(hold, left)}"
        return _again_at(replace(decision, message=message, equivalence=None, per_node=False), until)


def _said(hold: Hold, there: int) -> str:
    left = f"until {counted(there, 'pod')} there {'has' if there == 1 else 'have'} ended" if there else "now"
    return f"room on node {hold.node} is kept for it, which is enough {left}."


def _again_at(decision: Decision, moment: float) -> Decision:
    """Return a decision that comes out differently from some moment on at the latest."""
    return replace(decision, again_at=moment if decision.again_at is None else min(moment, decision.again_at))
