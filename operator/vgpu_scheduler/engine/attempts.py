"""Attempts: decide the next pod of the queue, alone or with its group, then assume its placement or requeue it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.assumed import Reserver
from vgpu_scheduler.engine.group_attempts import GroupAttempts, malformed, waits_for_group_members
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.preemption.group_preemptions import GroupPreemptions
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent
from vgpu_scheduler.engine.requeuing import Requeuer
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.engine.waiting_holds import WaitingHolds
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome


class Attempts:
    """Decides the pods of a queue, one after the other.

    Parameters
    ----------
    algorithm, queue, groups, storage, policy_tracker, requeuer
        Collaborators.
    preemptions
        Finds victims for pods that fit nowhere.

    Attributes
    ----------
    reserver
        Reserves decided placements, and undoes reservations.
    waiting_holds
        Keeps room for pods that have waited for long.
    group_preemptions
        Finds victims for groups that fit nowhere, where preemption is on.
    in_flight
        The pods of the last attempt.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        queue: SchedulingQueue,
        groups: PodGroups,
        storage: StorageAccess,
        policy_tracker: PolicyTracker,
        requeuer: Requeuer,
        preemptions: Preemptions,
    ) -> None:
        self._preemptions = preemptions
        self._state = algorithm.state
        self._algorithm = algorithm
        self._queue = queue
        self._groups = groups
        self._storage = storage
        self._policy_tracker = policy_tracker
        self._requeuer = requeuer
        self.reserver = Reserver(algorithm.state, preemptions)
        self._group_attempts = GroupAttempts(algorithm, policy_tracker, self.reserver)
        near = self._group_attempts.constraints
        self.waiting_holds = WaitingHolds(algorithm, preemptions, groups, near)
        self.group_preemptions = GroupPreemptions(algorithm, preemptions, groups.priority, near)
        self.in_flight: tuple[Pod, ...] = ()

    def attempt(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod, with others where its group needs several at once. Errors concern ``in_flight`` alone.

        Returns
        -------
        tuple of Decision
            Empty where the pod went back to the unschedulable pods, since no changed node helps it.
        """
        self.in_flight = (pod,)
        group = self._status_to_try(pod)
        if rejected := self._rejected_for_group(pod, group):
            self._give_up_hold(pod, group, rejected[0])
            self._requeue_after_attempt(rejected[0], now, alone=False)
            return rejected
        if group is None:
            return self._attempt_alone(pod, now, explain=explain)
        return self._attempt_group(group, now, explain=explain)

    def decide(self, pod: Pod, now: float) -> tuple[Decision, ...]:
        """Decide a pod, with its group, and assume its placement or make room for it as an attempt does.

        The queue is left as it is.
        """
        group = self._status_to_try(pod)
        decisions = self._rejected_for_group(pod, group) or self._decide_all(pod, group, now, explain=False)
        for decision in decisions:
            if decision.outcome is Outcome.PLACED:
                self._preemptions.placed(decision)
        return decisions

    def _status_to_try(self, pod: Pod) -> GroupStatus | None:
        """Return the group that a pod is decided with, or that is incomplete; None for a pod that is placed alone."""
        return self._groups.incomplete_status(pod) or self.gang_status(pod)

    def _rejected_for_group(self, pod: Pod, group: GroupStatus | None) -> tuple[Decision, ...]:
        """Return the decision about a pod that cannot be tried because of its group; empty if it can."""
        if problem := self._groups.problem(pod):
            return (malformed(pod, problem),)
        return () if group is None or group.schedules_as_gang else (waits_for_group_members(pod, group),)

    def _decide_all(self, pod: Pod, group: GroupStatus | None, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a pod, or all pods of its group, and assume the placements.

        If they fit nowhere, preempt others, or keep the room that others leave for them.
        """
        if unsynced := self._storage.decisions_before_sync((pod,) if group is None else group.waiting):
            return unsynced
        if group is None:
            decision = self._decide(pod, explain=explain)
            if decision.outcome is Outcome.PLACED:
                return (decision,)
            decision = self._preemptions.post_filter(pod, decision, now)
            return (self.waiting_holds.for_pod(pod, decision, now),)
        decisions = self._group_attempts.decide(group, explain=explain)
        if decisions[0].outcome is Outcome.PLACED:
            return decisions
        decisions = self.group_preemptions.post_filter(group, decisions, now)
        return self.waiting_holds.for_group(group, decisions, now)

    def gang_status(self, pod: Pod) -> GroupStatus | None:
        """Return the group that a pod is decided with; None for a pod that is placed alone on any node.

        A pod that is placed alone, but near others of its group, counts as a group of its own.
        """
        group = self._groups.status_of(pod)
        if group is None or not group.schedules_individually:
            return group
        return group.only(pod) if self._group_attempts.constraints(group) else None

    def may_move(self, pod: Pod) -> bool:
        """Tell whether a placed pod may move to any other node that fits it: not if it has to be near its group."""
        group = self._groups.status_of(pod)
        return group is None or not self._group_attempts.constraints(group.only(pod))

    def dry_run(self, pod: Pod, *, explain: bool = True) -> Decision:
        """Return the decision that an attempt would make now, without preemption, and undo its reservations.

        For a pod beyond what its group needs, that is the decision once the group is placed.

        Parameters
        ----------
        explain
            Include the verdicts of all nodes.
        """
        group = self._status_to_try(pod)
        before = self.reserver.before()
        decisions = self._rejected_for_group(pod, group)
        if group is not None and not decisions:
            decisions = self._group_attempts.decide(group, explain=explain)
        try:
            own = next((decision for decision in decisions if decision.uid == pod.uid), None)
            return self._algorithm.decide(pod, explain=explain) if own is None else own
        finally:
            self.reserver.undo([each for each in decisions if each.outcome is Outcome.PLACED], before)

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Undo all changes of holds and preemptions at the end of the context; placements must be undone by then."""
        with self._preemptions.rolled_back(), self.waiting_holds.rolled_back():
            yield

    def _attempt_alone(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod by itself; empty if no changed node helps it, and it stays unschedulable."""
        retry_basis = self._queue.retry_basis(pod.uid)
        changed = None if retry_basis is None else self._requeuer.changed_since(pod, retry_basis)
        if retry_basis is not None and changed is not None:
            decision = self._decide(pod, explain=explain, changed=changed)
            says_nothing_new = set(decision.rejected_by) <= set(retry_basis.rejected_by)
            if decision.outcome is Outcome.UNSCHEDULABLE and decision.node_local and says_nothing_new:
                retry_basis = replace(retry_basis, nodes_version=self._state.nodes.latest_version)
                self._requeuer.note(pod, self._queue.return_unschedulable(pod.uid, retry_basis, now))
                return ()
            if decision.outcome is Outcome.PLACED:
                self._requeue_after_attempt(decision, now, alone=True)
                return (decision,)
        decisions = self._decide_all(pod, None, now, explain=explain)
        self._requeue_after_attempt(decisions[0], now, alone=True)
        return decisions

    def _attempt_group(self, group: GroupStatus, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide the group of a popped pod."""
        self.in_flight = group.waiting
        decisions = self._decide_all(group.waiting[0], group, now, explain=explain)
        decided = {decision.uid for decision in decisions}
        for decision in decisions:  # all pods first, because placing one activates the next of its class
            self._queue.pop_specific(decision.uid, now)
        for decision in decisions:
            self._requeue_after_attempt(decision, now, alone=False)
        for other in group.waiting:
            if other.uid not in decided:  # the group has as many pods as it needs; the others are placed one by one
                created = other.creation_timestamp
                self._queue.add(other.uid, other.priority, now, QueueEvent.FORCE_ACTIVATE, created=created)
        return decisions

    def _give_up_hold(self, pod: Pod, group: GroupStatus | None, rejected: Decision) -> None:
        """Give up the hold for a pod that cannot be tried now, and for others of its group that wait with it."""
        is_malformed = rejected.outcome is Outcome.REFUSED
        if group is not None and not is_malformed:
            self.waiting_holds.give_up(group.waiting)
        if group is None or is_malformed or group.needed:  # else it is placed once the others are bound
            self._preemptions.withdraw(pod.uid)

    def _requeue_after_attempt(self, decision: Decision, now: float, *, alone: bool) -> None:
        """Put a pod into its place in the queue after its attempt."""
        uid = decision.uid
        if decision.outcome is Outcome.PLACED:
            self._queue.placed(uid, now)
            self._preemptions.placed(decision)
        elif decision.outcome is Outcome.ERROR:
            self._queue.back_off(uid, now)
        elif decision.outcome is Outcome.NOT_READY:
            self._queue.return_untried(uid, decision.helped_by, now)
        else:
            nodes_version = self._state.nodes.latest_version if alone and decision.node_local else None
            unschedulable_class = self._queue.add_unschedulable(
                uid,
                decision.helped_by,
                now,
                decision.equivalence,
                decision.rejected_by,
                nodes_version,
                decision.retry_at,
            )
            pod = self._state.pod(uid)
            if pod is not None:
                self._requeuer.note(pod, unschedulable_class)

    def _decide(self, pod: Pod, *, explain: bool, changed: NDArray[np.int64] | None = None) -> Decision:
        """Decide a pod and reserve its placement."""
        self._policy_tracker.decided(pod)
        decision = self._algorithm.decide(pod, explain=explain, changed=changed)
        if decision.placement is not None:
            self._state.pending_events.events |= self.reserver.reserve(pod, decision)
        return decision
