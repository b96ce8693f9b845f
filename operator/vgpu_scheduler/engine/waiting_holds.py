"""Room that is kept for pods that have waited for long: what others leave on a node by themselves is theirs.

Without it smaller pods take what becomes free again and again, and a pod that needs a whole card, or a group, waits for
ever. Nobody is evicted for it: the room is where the fewest have to end, and it grows as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import Refused
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.preemption.evaluator import PartialGroupPlan
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.group_plans import GroupPlan, GroupPlanner
from vgpu_scheduler.engine.preemption.group_preemptions import plan_in_a_domain
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.preemption.result import PreemptionResult
from vgpu_scheduler.engine.preemption.search import VictimSearch
from vgpu_scheduler.engine.preemption.victims import Preemptor, Victims
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kernels import NEVER_BELOW
from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import Decision, Outcome, TopologyConstraint, Victim, counted
from vgpu_scheduler.state import Phase, RoomReservation

__all__ = ["HELD_FOR", "WaitingHolds"]

HELD_FOR: Final = 3600.0
"""Seconds for which room is kept at most; after that its pods wait as long as before until some is kept again."""
_FRUITLESS_FOR: Final = 60.0
"""Seconds for which no room is looked for again after there was none, whoever left."""
_Plan = Callable[[], GroupPlan | PreemptionResult]


class WaitingHolds:
    """Keeps room for pods and groups that have waited for as long as their policy says.

    That is one pod or group at a time of each vendor's cards.

    Parameters
    ----------
    algorithm
        Knows what pods claim, and under which policy.
    preemptions
        Knows for whom room is kept.
    groups
        Knows which pods belong together.
    constraints
        Returns how near to each other the pods of a group are placed.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        preemptions: Preemptions,
        groups: PodGroups,
        constraints: Callable[[GroupStatus], Sequence[TopologyConstraint]],
    ) -> None:
        self._algorithm = algorithm
        self._state = algorithm.state
        self._preemptions = preemptions
        self._priority = groups.priority
        self._constraints = constraints
        self._planner = GroupPlanner(algorithm, RoomOnceOthersEnd(algorithm, preemptions, groups))
        self._begun: dict[str, float] = {}
        """When room was kept first for pods whose hour goes on, by UID."""
        self._fruitless: dict[str, float] = {}
        """Until when no room is looked for again, by UID."""
        self._ended: dict[str, float] = {}
        """When room was given up that was kept for so long that others are to have their turn, by UID."""
        self._together: dict[str, frozenset[str]] = {}
        """The UIDs of the pods for which room is kept together, by that of each."""

    def for_pod(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Return the decision about a pod that fits nowhere with what is kept for it from now on, if anything is."""

        def plan() -> GroupPlan | PreemptionResult:
            return self._planner.plan((pod,), 1, NEVER_BELOW, self._open(self._state.nodes.rows()), now)

        return self._for((pod,), 1, (decision,), plan, now)[0]

    def for_group(self, group: GroupStatus, decisions: tuple[Decision, ...], now: float) -> tuple[Decision, ...]:
        """Return the decisions about a group that fits nowhere with what is kept for it from now on, if anything is.

        Room is kept for as many of its pods as are needed, or for none.
        """

        def plan() -> GroupPlan | PreemptionResult:
            near = self._constraints(group)
            return plan_in_a_domain(self._algorithm, self._planner, group, near, NEVER_BELOW, now, self._open)

        return self._for(group.waiting, group.needed, decisions, plan, now)

    def give_up(self, pods: Sequence[Pod]) -> None:
        """Keep no room any more for pods that wait."""
        for pod in pods:
            if pod.uid in self._held_since:
                self._preemptions.withdraw(pod.uid)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        for known in (self._ended, self._begun, self._fruitless):
            known.pop(uid, None)
        self._together.pop(uid, None)

    def _for(
        self, pods: Sequence[Pod], needed: int, decisions: tuple[Decision, ...], plan: _Plan, now: float
    ) -> tuple[Decision, ...]:
        self._end_overdue(now)
        if any(self._preemptions.of(pod.uid) is not None for pod in pods):
            return decisions  # others are evicted from the room that is kept for them
        for pod in pods:
            if pod.uid not in self._held_since:  # what was kept after its Binding had failed was not enough
                self._preemptions.withdraw(pod.uid)
        after = self._algorithm.classes.policy(pods[0]).groups.hold_after
        if after is None or any(each.outcome is not Outcome.UNSCHEDULABLE for each in decisions):
            self.give_up(pods)
            return decisions
        holds = {pod.uid: hold for pod in pods if (hold := self._state.holds.get(pod.uid)) is not None}
        if holds:
            is_whole = all(self._together[uid] <= holds.keys() for uid in holds)
            if is_whole and all(map(self._preemptions.can_be_placed_on, holds.values())):
                return self._told(decisions, min(self._held_since[uid] for uid in holds) + HELD_FOR)
            self.give_up(pods)
        due = self._due(pods, needed, after)
        return self._begin(pods, decisions, plan, now) if now >= due else _again_at(decisions, due)

    def _end_overdue(self, now: float) -> None:
        """Keep no room any more that was kept for so long that others are to have their turn, whosever it is."""
        for uid in [uid for uid, begun in self._begun.items() if now >= begun + HELD_FOR]:
            del self._begun[uid]
            self._ended[uid] = now
            if uid in self._held_since:
                self._preemptions.withdraw(uid)

    def _due(self, pods: Sequence[Pod], needed: int, after: float) -> float:
        """Return when as many of some pods have waited for long enough as are needed."""
        since = (max(self._preemptions.evaluator.waiting_since(p), self._ended.get(p.uid, -after)) for p in pods)
        return sorted(since)[needed - 1] + after

    def _begin(
        self, pods: Sequence[Pod], decisions: tuple[Decision, ...], plan: _Plan, now: float
    ) -> tuple[Decision, ...]:
        """Keep room for pods if no others have their turn."""
        vendors = frozenset[str]().union(*map(self._vendors, pods))
        others = [begun + HELD_FOR for uid, begun in self._held_since.items() if vendors & self._vendors_of(uid)]
        until = max((*others, self._fruitless.get(pods[0].uid, now)))
        if until > now:
            return _again_at(decisions, until)
        found = plan()
        if isinstance(found, PreemptionResult):
            self._fruitless[pods[0].uid] = now + _FRUITLESS_FOR
            return decisions
        together = frozenset(each.pod.uid for each in found.members)
        begun = min(self._begun.get(uid, now) for uid in together)
        for each in found.members:
            self._together[each.pod.uid] = together
            leaving = found.leaving(each.placement.node)
            self._state.keep(self._preemptions.room_for(each.pod, each.placement, leaving, self._priority(each.pod)))
            self._held_since[each.pod.uid] = self._begun[each.pod.uid] = begun
        return self._told(decisions, begun + HELD_FOR)

    @property
    def _held_since(self) -> dict[str, float]:
        return self._preemptions.held_without_eviction

    def _open(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some rows where no room is kept for others."""
        kept = [row for hold in self._state.holds if (row := self._state.nodes.row(hold.node)) is not None]
        return rows[~np.isin(rows, kept)]

    def _vendors_of(self, uid: str) -> frozenset[str]:
        pod = self._state.pod(uid)
        return frozenset() if pod is None else self._vendors(pod)

    def _vendors(self, pod: Pod) -> frozenset[str]:
        """Return whose cards a pod claims; those that claim none share what is none."""
        claimed = self._algorithm.classes.claimed(pod)
        containers = () if claimed is None else claimed.claims
        return frozenset(claim.vendor for container in containers for claim in container.claims) or frozenset({""})

    def _told(self, decisions: tuple[Decision, ...], until: float) -> tuple[Decision, ...]:
        """Return decisions that say where room is kept for their pods, which stand for themselves from now on."""
        told = []
        for each in decisions:
            hold = self._state.holds.get(each.uid)
            message = each.message if hold is None else f"{each.message} {self._said(hold)}"
            told.append(replace(each, message=message, equivalence=None, per_node=False))
        return _again_at(tuple(told), until)

    def _said(self, hold: RoomReservation) -> str:
        there = (self._state.reservation(uid) for uid in hold.leaving)
        number = sum(reservation is not None and reservation.node == hold.node for reservation in there)
        left = f"once {counted(number, 'pod')} there {'has' if number == 1 else 'have'} ended" if number else "now"
        return f"room on node {hold.node} is kept for it, which is enough {left}."


class RoomOnceOthersEnd:
    """Says what pods get once others have ended by themselves, whoever they are: where the fewest have to.

    Nobody waits for pods of the own group: they wait, too.

    Parameters
    ----------
    algorithm, preemptions, groups
        What it works with.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, preemptions: Preemptions, groups: PodGroups) -> None:
        self._key_of = groups.key_of
        self._algorithm = algorithm
        self._state = algorithm.state
        self._evaluator = preemptions.evaluator
        self.disruption = GroupDisruption(algorithm.state)

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return no budgets: nobody is evicted."""
        return ()

    def search_beside_group(self, pod: Pod, now: float, beside: PartialGroupPlan) -> PreemptionResult:
        """Say what one more pod gets beside those for which others leave, and who has to leave, too."""
        del now
        pod_class = self._algorithm.classes.of(pod)
        if isinstance(pod_class, Refused):
            return PreemptionResult(reason=pod_class.reason)
        ranked = msgspec.structs.replace(pod, priority=beside.priority)
        preemptor = Preemptor(ranked, pod_class)
        may_end = partial(self._ends_by_itself, self._key_of(pod.uid))
        search = VictimSearch(self._state, self._algorithm.nominated, self.budgets, may_end)
        found = self._algorithm.filter(pod, pod_class, beside.rows)
        best = self._evaluator.cheapest(search, preemptor, found).victims
        return PreemptionResult() if best is None else self._evaluator.placed(preemptor, best)

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return those who have to leave."""
        return self._evaluator.victims(best)

    def _ends_by_itself(self, own: GroupKey | None, pod: Pod) -> bool:
        """Tell whether a pod leaves its room at some time, and nobody puts another one in its place at once."""
        reservation = self._state.reservation(pod.uid)
        if own is not None and self._key_of(pod.uid) == own and not pod.deleting:
            return False
        if reservation is None or reservation.closes_cards or reservation.phase is Phase.ASSUMED:
            return False
        return not pod.is_node_bound


def _again_at(decisions: tuple[Decision, ...], moment: float) -> tuple[Decision, ...]:
    """Return decisions that come out differently from some moment on at the latest."""
    return tuple(
        replace(each, again_at=moment if each.again_at is None else min(moment, each.again_at)) for each in decisions
    )
