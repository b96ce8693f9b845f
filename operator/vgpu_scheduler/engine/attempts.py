"""Attempts: the next pod of the queue is decided, alone or with its pod group, assumed or put where it waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.assumed import Reserver
from vgpu_scheduler.engine.group_attempts import GroupAttempts, failed, malformed, waits_for_group_members
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
from vgpu_scheduler.model import ClusterEvent, Decision, Outcome

__all__ = ["Attempts"]


class Attempts:
    """Decides the pods of a queue, one after the other.

    Parameters
    ----------
    algorithm, queue, groups, storage, policy_tracker, requeuer
        What it works with.
    preemptions
        Gives pods that fit nowhere the room of others.

    Attributes
    ----------
    reserver
        Reserves placements that were decided, and takes them back.
    waiting_holds
        Keeps room for pods that have waited for long.
    group_preemptions
        Gives groups that fit nowhere the room of others; None where nobody gets that.
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
        self.group_preemptions: GroupPreemptions | None = None
        if preemptions.enabled:
            self.group_preemptions = GroupPreemptions(algorithm, preemptions, groups.priority, near)

    def attempt(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod, with others where its group needs several at once.

        Returns
        -------
        tuple of Decision
            Empty where the pod was put back, since no node that changed helps it.
        """
        if problem := self._groups.problem(pod):
            decision = malformed(pod, problem)
            self._keep_no_room(pod)
            self._file(decision, now, alone=False)
            return (decision,)
        group = self._groups.incomplete_status(pod) or self.gang_status(pod)
        if group is None:
            return self._attempt_alone(pod, now, explain=explain)
        return self._attempt_group(pod, group, now, explain=explain)

    def gang_status(self, pod: Pod) -> GroupStatus | None:
        """Return the group that a pod is decided with; None for a pod that is placed by itself, wherever there is room.

        One that is placed by itself, and near others of its group, is decided as a group of its own.
        """
        group = self._groups.status_of(pod)
        if group is None or not group.schedules_individually:
            return group
        return group.only(pod) if self._group_attempts.constraints(group) else None

    def may_move(self, pod: Pod) -> bool:
        """Tell whether a placed pod may go to whichever other node fits it: not away from others of its group."""
        group = self._groups.status_of(pod)
        return group is None or not self._group_attempts.constraints(group.only(pod))

    def ask(self, pod: Pod, *, explain: bool = True) -> Decision:
        """Return the decision that an attempt would come to now, without preemption; nothing is left of it.

        For one of more pods than its group needs that is the one after the group is placed.

        Parameters
        ----------
        explain
            Give what all nodes say.
        """
        if problem := self._groups.problem(pod):
            return malformed(pod, problem)
        group = self.gang_status(pod)
        if group is None:
            return self._algorithm.decide(pod, explain=explain)
        if not group.schedules_as_gang:
            return waits_for_group_members(pod, group)
        before = self.reserver.before()
        decisions = self.decide_group(group, explain=explain)
        try:
            own = next((decision for decision in decisions if decision.uid == pod.uid), None)
            return self._algorithm.decide(pod, explain=explain) if own is None else own
        finally:
            self.reserver.undo([each for each in decisions if each.outcome is Outcome.PLACED], before)

    def decide_group(self, group: GroupStatus, *, explain: bool = False) -> tuple[Decision, ...]:
        """Decide a complete group; see :meth:`GroupAttempts.decide`."""
        return self._group_attempts.decide(group, explain=explain)

    def _attempt_alone(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod by itself; empty where it was put back, since no node that changed helps it."""
        last_attempt = self._queue.last_attempt(pod.uid)
        changed = None if last_attempt is None else self._requeuer.changed_since(pod, last_attempt)
        if last_attempt is not None and changed is not None:
            decision = self._decide(pod, explain=explain, changed=changed)
            says_nothing_new = set(decision.rejected_by) <= set(last_attempt.rejected_by)
            if decision.outcome is Outcome.UNSCHEDULABLE and decision.per_node and says_nothing_new:
                last_attempt = replace(last_attempt, nodes_version=self._state.nodes.latest_version)
                self._requeuer.note(pod, self._queue.return_unschedulable(pod.uid, last_attempt, now))
                return ()
            if decision.outcome is Outcome.PLACED:
                self._file(decision, now, alone=True)
                return (decision,)
        decisions = self._storage.hold_back((pod,)) or (self._with_preemption(pod, now, explain=explain),)
        self._file(decisions[0], now, alone=True)
        return decisions

    def _with_preemption(self, pod: Pod, now: float, *, explain: bool) -> Decision:
        """Decide a pod; if it fits nowhere, others may have to end for it, or room is kept for it as others end."""
        decision = self._decide(pod, explain=explain)
        if decision.outcome is Outcome.PLACED:
            return decision
        try:
            decision = self._preemptions.post_filter(pod, decision, now)
            return self.waiting_holds.for_pod(pod, decision, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's
            return failed(pod, error)

    def _group_with_preemption(self, group: GroupStatus, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a group; if it fits nowhere, others may have to end for it, or room is kept for it as others end."""
        decisions = self._group_attempts.decide(group, explain=explain)
        if decisions[0].outcome is Outcome.PLACED:
            return decisions
        try:
            if self.group_preemptions is not None:
                decisions = self.group_preemptions.post_filter(group, decisions, now)
            return self.waiting_holds.for_group(group, decisions, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's
            return tuple(failed(pod, error) for pod in group.waiting)

    def _attempt_group(self, pod: Pod, group: GroupStatus, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod together with others of its group."""
        if not group.schedules_as_gang:
            decision = waits_for_group_members(pod, group)
            self.waiting_holds.give_up(group.waiting)
            if group.needed:  # else it has what is kept for it as soon as the others are bound
                self._keep_no_room(pod)
            self._queue.add_unschedulable(pod.uid, ClusterEvent.NONE, now, rejected_by=decision.rejected_by)
            return (decision,)
        decisions = self._storage.hold_back(group.waiting) or self._group_with_preemption(group, now, explain=explain)
        decided = {decision.uid for decision in decisions}
        for decision in decisions:  # first all: one that is placed activates the next of its class
            self._queue.take(decision.uid, now)
        for decision in decisions:
            self._file(decision, now, alone=False)
        for other in group.waiting:
            if other.uid not in decided:  # the group has what it needs: from now on each is placed by itself
                created = other.creation_timestamp
                self._queue.add(other.uid, other.priority, now, QueueEvent.FORCE_ACTIVATE, created=created)
        return decisions

    def _keep_no_room(self, pod: Pod) -> None:
        """Keep no room any more for a pod that cannot be placed now, wherever there is room."""
        self._preemptions.withdraw(pod.uid)

    def _file(self, decision: Decision, now: float, *, alone: bool) -> None:
        """Put a pod where it waits after its attempt."""
        uid = decision.uid
        if decision.outcome is Outcome.PLACED:
            self._queue.placed(uid, now)
            self._preemptions.placed(decision)
        elif decision.outcome is Outcome.ERROR:
            self._queue.back_off(uid, now)
        elif decision.outcome is Outcome.NOT_READY:
            self._queue.set_aside(uid, decision.helped_by, now)
        else:
            nodes_version = self._state.nodes.latest_version if alone and decision.per_node else None
            unschedulable_class = self._queue.add_unschedulable(
                uid,
                decision.helped_by,
                now,
                decision.equivalence,
                decision.rejected_by,
                nodes_version,
                decision.again_at,
            )
            pod = self._state.pod(uid)
            if pod is not None:
                self._requeuer.note(pod, unschedulable_class)

    def _decide(self, pod: Pod, *, explain: bool, changed: NDArray[np.int64] | None = None) -> Decision:
        """Decide a pod and assume its placement; one bad pod must not stop all others."""
        try:
            self._policy_tracker.decided(pod)
            decision = self._algorithm.decide(pod, explain=explain, changed=changed)
            if decision.placement is not None:
                self._state.wakes.events |= self.reserver.reserve(pod, decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's
            return failed(pod, error)
        return decision
