"""Holds for pods that have waited for long: room that other pods leave on a node by themselves is kept for them.

Otherwise smaller pods take freed room again and again, and a pod that needs a whole card, or a group, waits forever.
No pod is evicted for a hold: it is made where the fewest pods have to end, and takes over their room as they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.equivalence import RefusedClass
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
from vgpu_scheduler.model import Decision, Outcome, TopologyConstraint, Victim, counted, vendors_of
from vgpu_scheduler.state import Hold, Phase

HELD_FOR: Final = 3600.0
"""Maximum time that room is kept (seconds). After it, the pods wait as long as before until room is kept again."""
_FRUITLESS_FOR: Final = 60.0
"""Seconds before a search for room that found none is repeated."""
_Plan = Callable[[], GroupPlan | PreemptionResult]


@dataclass(frozen=True, slots=True)
class WaitingHold:
    """The hold for a pod that has waited for long.

    Attributes
    ----------
    since
        When room was first kept for it.
    together
        The UIDs of the pods whose room is kept together with its own, itself among them.
    """

    hold: Hold
    since: float
    together: frozenset[str]


def by_group(holds: Iterable[WaitingHold]) -> list[list[WaitingHold]]:
    """Return holds by the pods whose room is kept together."""
    found: dict[frozenset[str], list[WaitingHold]] = {}
    for each in holds:
        found.setdefault(each.together, []).append(each)
    return list(found.values())


class WaitingHolds:
    """Keeps room for pods and groups that have waited for as long as their policy says.

    For each vendor's cards, room is kept for one pod or group at a time.

    Parameters
    ----------
    algorithm
        Knows what pods claim, and under which policy.
    preemptions
        Keeps track of all holds.
    groups
        Knows which pods belong together.
    constraints
        Returns the topology constraints of a group.
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
        """When room was first kept, by UID of pods whose hour (`HELD_FOR`) is not over."""
        self._fruitless: dict[str, float] = {}
        """Until when no room is searched for, by UID."""
        self._ended: dict[str, float] = {}
        """When the hold of a pod expired, by UID."""
        self._together: dict[str, frozenset[str]] = {}
        """The UIDs of the pods whose room is kept together, by UID of each of them."""
        self._by_uid: tuple[dict[str, Any], ...] = (self._begun, self._fruitless, self._ended, self._together)

    def for_pod(self, pod: Pod, decision: Decision, now: float) -> Decision:
        """Keep room for a pod that fits nowhere, if it is due; return its decision with a message about the room."""

        def plan() -> GroupPlan | PreemptionResult:
            return self._planner.plan((pod,), 1, NEVER_BELOW, self._open(self._state.nodes.rows()), now)

        return self._for((pod,), 1, (decision,), plan, now)[0]

    def for_group(self, group: GroupStatus, decisions: tuple[Decision, ...], now: float) -> tuple[Decision, ...]:
        """Keep room for a group that fits nowhere, if it is due; return its decisions with messages about the room.

        Room is kept for as many of its pods as are needed, or for none.
        """

        def plan() -> GroupPlan | PreemptionResult:
            near = self._constraints(group)
            return plan_in_a_domain(self._algorithm, self._planner, group, near, NEVER_BELOW, now, self._open)

        return self._for(group.waiting, group.needed, decisions, plan, now)

    def give_up(self, pods: Sequence[Pod]) -> None:
        """Give up the room that is kept for waiting pods."""
        for pod in pods:
            if pod.uid in self._held_since:
                self._preemptions.withdraw(pod.uid)

    def current(self) -> list[WaitingHold]:
        """Return the holds for pods that have waited for long."""
        found = [(self._state.holds.get(uid), uid, since) for uid, since in self._held_since.items()]
        return [WaitingHold(hold, since, self._together[uid]) for hold, uid, since in found if hold is not None]

    def of_placed(self, pods: Sequence[Pod], now: float) -> list[WaitingHold]:
        """Return holds that keep the places of pods that were placed together; none unless they have waited for long.

        Such holds are for questions in which the pods are not placed: in their turn they take this room first.
        """
        after = self._algorithm.classes.policy(pods[0]).groups.hold_after
        if after is None or now < self._due(pods, len(pods), after):
            return []
        together, found = frozenset(pod.uid for pod in pods), list[WaitingHold]()
        for pod in pods:
            reservation = self._state.reservation(pod.uid)
            if reservation is not None and reservation.placement is not None:
                hold = self._preemptions.hold_for(pod, reservation.placement, (), self._priority(pod))
                found.append(WaitingHold(hold, now, together))
        return found

    def keep(self, holds: Iterable[WaitingHold]) -> None:
        """Keep room for pods that wait, as :meth:`current` returned it earlier."""
        for each in holds:
            uid = each.hold.uid
            self._state.add_hold(each.hold)
            self._held_since[uid] = self._begun[uid] = each.since
            self._together[uid] = each.together

    def end(self, uids: Iterable[str], now: float) -> None:
        """End the holds of pods as after `HELD_FOR`: they wait as long as before until room is kept again."""
        for uid in uids:
            self._begun.pop(uid, None)
            self._ended[uid] = now
            if uid in self._held_since:
                self._preemptions.withdraw(uid)

    def has_ended(self, uid: str) -> bool:
        """Tell whether the hold of a pod has expired, so that equal pods may have room kept before it."""
        return uid in self._ended

    def forget(self, uid: str) -> None:
        """Note that a pod is gone."""
        for known in self._by_uid:
            known.pop(uid, None)

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Undo at the end of the context what was noted in it about holds and searches for them."""
        before = [dict(known) for known in self._by_uid]
        try:
            yield
        finally:
            for known, was in zip(self._by_uid, before, strict=True):
                known.clear()
                known.update(was)

    def describe(self, uid: str) -> str:
        """Say where room is kept for a pod that has waited for long, and when it is enough; empty if none is."""
        hold = self._state.holds.get(uid) if uid in self._held_since else None
        return "" if hold is None else self._hold_message(hold)

    def _for(
        self, pods: Sequence[Pod], needed: int, decisions: tuple[Decision, ...], plan: _Plan, now: float
    ) -> tuple[Decision, ...]:
        self._end_overdue(now)
        if any(self._preemptions.of(pod.uid) is not None for pod in pods):
            return decisions  # the pods preempt others and have their room from that
        for pod in pods:
            if pod.uid not in self._held_since:  # room kept after a failed Binding was not enough
                self._preemptions.withdraw(pod.uid)
        after = self._algorithm.classes.policy(pods[0]).groups.hold_after
        if after is None or any(each.outcome is not Outcome.UNSCHEDULABLE for each in decisions):
            self.give_up(pods)
            return decisions
        holds = {pod.uid: hold for pod in pods if (hold := self._state.holds.get(pod.uid)) is not None}
        if holds:
            is_whole = all(self._together[uid] <= holds.keys() for uid in holds)
            if is_whole and all(map(self._preemptions.can_be_placed_on, holds.values())):
                return self._with_hold_messages(decisions, min(self._held_since[uid] for uid in holds) + HELD_FOR)
            self.give_up(pods)
        due = self._due(pods, needed, after)
        return self._begin(pods, decisions, plan, now) if now >= due else _retry_at(decisions, due)

    def _end_overdue(self, now: float) -> None:
        """Give up all holds that have lasted for `HELD_FOR`, so that other pods get a hold."""
        self.end([uid for uid, begun in self._begun.items() if now >= begun + HELD_FOR], now)

    def _due(self, pods: Sequence[Pod], needed: int, after: float) -> float:
        """Return when as many of the pods as are needed will have waited for ``after`` seconds."""
        since = (max(self._preemptions.evaluator.waiting_since(p), self._ended.get(p.uid, -after)) for p in pods)
        return sorted(since)[needed - 1] + after

    def _begin(
        self, pods: Sequence[Pod], decisions: tuple[Decision, ...], plan: _Plan, now: float
    ) -> tuple[Decision, ...]:
        """Keep room for pods, unless room is kept for other pods that claim the same vendor's cards."""
        vendors = frozenset[str]().union(*map(self._vendors, pods))
        others = [begun + HELD_FOR for uid, begun in self._held_since.items() if vendors & self._vendors_of(uid)]
        until = max((*others, self._fruitless.get(pods[0].uid, now)))
        if until > now:
            return _retry_at(decisions, until)
        found = plan()
        if isinstance(found, PreemptionResult):
            self._fruitless[pods[0].uid] = now + _FRUITLESS_FOR
            return decisions
        together = frozenset(each.pod.uid for each in found.members)
        begun = min(self._begun.get(uid, now) for uid in together)
        for each in found.members:
            self._together[each.pod.uid] = together
            leaving = found.leaving(each.placement.node)
            self._state.add_hold(
                self._preemptions.hold_for(each.pod, each.placement, leaving, self._priority(each.pod))
            )
            self._held_since[each.pod.uid] = self._begun[each.pod.uid] = begun
        return self._with_hold_messages(decisions, begun + HELD_FOR)

    @property
    def _held_since(self) -> dict[str, float]:
        return self._preemptions.held_without_eviction

    def _open(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows on which no room is kept."""
        held = [row for hold in self._state.holds if (row := self._state.nodes.row(hold.node)) is not None]
        return rows[~np.isin(rows, held)]

    def _vendors_of(self, uid: str) -> frozenset[str]:
        pod = self._state.pod(uid)
        return frozenset() if pod is None else self._vendors(pod)

    def _vendors(self, pod: Pod) -> frozenset[str]:
        """Return the vendors whose cards a pod claims; {""} for a pod that claims none."""
        claimed = self._algorithm.classes.claimed(pod)
        return vendors_of(() if claimed is None else claimed.claims) or frozenset({""})

    def _with_hold_messages(self, decisions: tuple[Decision, ...], until: float) -> tuple[Decision, ...]:
        """Return decisions that name the nodes with the pods' holds, and are specific to each pod from now on."""
        told = []
        for each in decisions:
            message = " ".join(filter(None, (each.message, self.describe(each.uid))))
            told.append(replace(each, message=message, equivalence=None, node_local=False))
        return _retry_at(tuple(told), until)

    def _hold_message(self, hold: Hold) -> str:
        there = (self._state.reservation(uid) for uid in hold.leaving)
        number = sum(reservation is not None and reservation.node == hold.node for reservation in there)
        left = f"once {counted(number, 'pod')} there {'has' if number == 1 else 'have'} ended" if number else "now"
        return f"room on node {hold.node} is kept for it, which is enough {left}."


class RoomOnceOthersEnd:
    """Finds the node where the fewest pods, of whatever priority, have to end by themselves until a pod fits.

    Pods of its own group do not count as ending.

    Parameters
    ----------
    algorithm, preemptions, groups
        Collaborators.
    """

    def __init__(self, algorithm: SchedulingAlgorithm, preemptions: Preemptions, groups: PodGroups) -> None:
        self._key_of = groups.key_of
        self._algorithm = algorithm
        self._state = algorithm.state
        self._evaluator = preemptions.evaluator
        self.disruption = GroupDisruption(algorithm.state)

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return no budgets: no pod is evicted."""
        return ()

    def search_next_member(self, pod: Pod, now: float, planned: PartialGroupPlan) -> PreemptionResult:
        """Return the placement of one more pod beside those planned already, and which pods have to end for it."""
        del now
        pod_class = self._algorithm.classes.of(pod)
        if isinstance(pod_class, RefusedClass):
            return PreemptionResult(reason=pod_class.reason)
        ranked = msgspec.structs.replace(pod, priority=planned.priority)
        preemptor = Preemptor(ranked, pod_class)
        may_end = partial(self._ends_by_itself, self._key_of(pod.uid))
        search = VictimSearch(self._state, self._algorithm.nominated, self.budgets, may_end)
        found = self._algorithm.filter(pod, pod_class, planned.rows)
        best = self._evaluator.cheapest(search, preemptor, found).victims
        return PreemptionResult() if best is None else self._evaluator.placed(preemptor, best)

    def victims(self, best: Victims) -> tuple[Victim, ...]:
        """Return the pods that have to end."""
        return self._evaluator.victims(best)

    def _ends_by_itself(self, own: GroupKey | None, pod: Pod) -> bool:
        """Tell whether a pod ends at some time and is not replaced at once on the same node (as by a DaemonSet)."""
        reservation = self._state.reservation(pod.uid)
        if own is not None and self._key_of(pod.uid) == own and not pod.deleting:
            return False
        if reservation is None or reservation.closes_cards or reservation.phase is Phase.ASSUMED:
            return False
        return not pod.is_node_bound


def _retry_at(decisions: tuple[Decision, ...], moment: float) -> tuple[Decision, ...]:
    """Return decisions that are made again at a moment at the latest."""
    return tuple(
        replace(each, retry_at=moment if each.retry_at is None else min(moment, each.retry_at)) for each in decisions
    )
