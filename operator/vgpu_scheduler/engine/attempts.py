"""Attempts: the next pod of the queue is decided, alone or with its group, assumed or put where it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.effective_policies import EffectivePolicies
from vgpu_scheduler.engine.pod_groups import PodGroups, failed_together, missing_members
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.requeuing import Requeuer
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome, internal_error
from vgpu_scheduler.state import State

__all__ = ["Attempts", "assume"]


def assume(state: State, pod: Pod, decision: Decision) -> Hint:
    """Assume a placement that was decided; return what that may help."""
    assert decision.placement is not None
    usage = placement_usage(decision.placement, decision.claims)
    return state.assume(pod.uid, decision.placement, usage, pod.spec.requests)


class Attempts:
    """Decides the pods of a queue, one after the other.

    Parameters
    ----------
    cycle, queue, groups, storage, policies, requeuer
        What it works with.
    waits
        Tells whether a pod has to be placed.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: SchedulingQueue,
        groups: PodGroups,
        storage: StorageAccess,
        policies: EffectivePolicies,
        requeuer: Requeuer,
        waits: Callable[[Pod], bool],
    ) -> None:
        self._state = cycle.state
        self._cycle = cycle
        self._queue = queue
        self._groups = groups
        self._storage = storage
        self._policies = policies
        self._requeuer = requeuer
        self._waits = waits

    def attempt(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod with its group; empty where it was put back, since no node that changed helps it."""
        last_attempt = self._queue.last_attempt(pod.uid)
        within = None if last_attempt is None else self._requeuer.changed_since(pod, last_attempt)
        if last_attempt is not None and within is not None:
            decision = self._decide(pod, explain=explain, within=within)
            says_nothing_new = set(decision.rejected_by) <= set(last_attempt.rejected_by)
            if decision.outcome is Outcome.UNSCHEDULABLE and decision.per_node and says_nothing_new:
                last_attempt = replace(last_attempt, clock=self._state.nodes.clock)
                self._requeuer.note(pod, self._queue.return_unschedulable(pod.uid, last_attempt, now))
                return ()
            if decision.outcome is Outcome.PLACED:
                self._queue.placed(pod.uid, now)
                return (decision,)
        if self._groups.name(pod.uid):
            return self._attempt_group(pod, now, explain=explain)
        decisions = self._storage.hold_back((pod,)) or (self._decide(pod, explain=explain),)
        self._file(decisions[0], now, alone=True)
        return decisions

    def _attempt_group(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod with all that belong to its group."""
        pods, missing = self._groups.gather(pod, self._waits)
        if missing:
            decision = missing_members(pod, self._groups.name(pod.uid), missing)
            self._queue.add_unschedulable(pod.uid, Hint.NONE, now, rejected_by=decision.rejected_by)
            return (decision,)
        for member in pods:
            self._queue.take(member.uid, now)
        decisions = self._storage.hold_back(pods) or self._decide_together(pods, explain=explain)
        for decision in decisions:
            self._file(decision, now, alone=len(decisions) == 1)
        return decisions

    def _file(self, decision: Decision, now: float, *, alone: bool) -> None:
        """Put a pod where it waits after its attempt."""
        uid = decision.uid
        if decision.outcome is Outcome.PLACED:
            self._queue.placed(uid, now)
        elif decision.outcome is Outcome.ERROR:
            self._queue.back_off(uid, now)
        elif decision.outcome is Outcome.WAITING:
            self._queue.set_aside(uid, decision.helped_by, now)
        else:
            clock = self._state.nodes.clock if alone and decision.per_node else None
            equivalence = decision.equivalence if alone else None
            unschedulable_class = self._queue.add_unschedulable(
                uid, decision.helped_by, now, equivalence, decision.rejected_by, clock
            )
            pod = self._state.pod(uid)
            if pod is not None:
                self._requeuer.note(pod, unschedulable_class)

    def _decide(self, pod: Pod, *, explain: bool, within: NDArray[np.int64] | None = None) -> Decision:
        """Decide a pod and assume its placement; one bad pod must not stop all others."""
        try:
            self._policies.decided(pod)
            decision = self._cycle.decide(pod, explain=explain, within=within)
            if decision.placement is not None:
                self._state.wakes.hints |= assume(self._state, pod, decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=internal_error(error), error=error)
        return decision

    def _decide_together(self, pods: Sequence[Pod], *, explain: bool) -> tuple[Decision, ...]:
        """Decide pods one after the other, each placement assumed: all of them are placed, or none.

        If one of several does not fit, all have its outcome, and say which it was; nobody is woken by what is undone.
        """
        placed: list[Decision] = []
        hints = Hint.NONE
        try:
            for pod in pods:
                self._policies.decided(pod)
            for pod in pods:
                decision = self._cycle.decide(pod, explain=explain)
                if decision.placement is None:
                    self._undo(placed)
                    return failed_together(pods, decision)
                hints |= assume(self._state, pod, decision)
                placed.append(decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's
            self._undo(placed)
            text = internal_error(error)
            return tuple(Decision(pod.uid, pod.key, Outcome.ERROR, message=text, error=error) for pod in pods)
        self._state.wakes.hints |= hints
        return tuple(placed)

    def _undo(self, placed: Sequence[Decision]) -> None:
        """Take placements back that were assumed within this decision."""
        for decision in reversed(placed):
            self._state.undo(decision.uid)
