"""Attempts: the next pod of the queue is decided, alone or with its pod group, assumed or put where it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.dialects import placement_usage
from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.policy_report import EffectivePolicies
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.requeuing import Requeuer
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Hint, Outcome, internal_error
from vgpu_scheduler.state import State

__all__ = ["Attempts", "assume"]


@dataclass(frozen=True, slots=True)
class PodGroupKey:
    """What a pod says of the group that it belongs to.

    Attributes
    ----------
    name
        The group; the same for all its pods.
    size
        How many pods it needs: fewer are not decided.
    """

    name: str
    size: int


Grouping = Callable[[Pod], PodGroupKey | None]
"""Says which group a pod belongs to; None where it is decided by itself."""


def each_alone(pod: Pod) -> PodGroupKey | None:
    """Have each pod decided by itself."""
    del pod
    return None


class PodGroups:
    """Keeps which waiting pods belong together.

    Parameters
    ----------
    grouping
        Says which group a pod belongs to.
    state
        Knows the pods.
    waits
        Tells whether a pod has to be placed.
    """

    def __init__(self, grouping: Grouping, state: State, waits: Callable[[Pod], bool]) -> None:
        self._grouping = grouping
        self._state = state
        self._waits = waits
        self._members: dict[str, dict[str, None]] = {}
        self._started: set[str] = set()
        """Groups of which a pod was bound: those that are left are decided however few they are."""
        self._group_of: dict[str, PodGroupKey] = {}

    def observe(self, pod: Pod) -> None:
        """Take in a pod of ours."""
        key = self._grouping(pod)
        if key != self._group_of.get(pod.uid):
            self.forget(pod.uid)
        if key is not None:
            self._group_of[pod.uid] = key
            self._members.setdefault(key.name, {})[pod.uid] = None
        if pod.node_name:
            self.bound(pod.uid)

    def bound(self, uid: str) -> None:
        """Take in that a pod is bound."""
        key = self._group_of.get(uid)
        if key is not None:
            self._started.add(key.name)

    def forget(self, uid: str) -> None:
        """Take in that a pod is gone."""
        key = self._group_of.pop(uid, None)
        if key is not None:
            members = self._members[key.name]
            del members[uid]
            if not members:
                del self._members[key.name]
                self._started.discard(key.name)

    def name(self, uid: str) -> str:
        """Return the group of a pod; empty if it is decided by itself."""
        key = self._group_of.get(uid)
        return key.name if key else ""

    def gather(self, pod: Pod) -> tuple[tuple[Pod, ...], int]:
        """Return the pods that are decided together with one, itself among them, and how many are missing.

        Members that hold a placement already are not decided again. The order is that of their names.
        """
        key = self._group_of.get(pod.uid)
        if key is None:
            return (pod,), 0
        placed, waiting = 0, []
        for uid in self._members[key.name]:
            member = self._state.pod(uid)
            if self._state.reservation(uid) is not None:
                placed += 1
            elif member is not None and self._waits(member):
                waiting.append(member)
        waiting.sort(key=lambda member: (member.namespace, member.name, member.uid))
        missing = 0 if key.name in self._started else max(key.size - placed - len(waiting), 0)
        return tuple(waiting), missing


def missing_members(pod: Pod, name: str, missing: int) -> Decision:
    """Return the decision about a pod of which others of its group have not come yet; each that comes is a new try."""
    message = f"{missing} more pods of group {name} have to come before any of them is placed"
    return Decision(
        pod.uid, pod.key, Outcome.UNSCHEDULABLE, message=message, another_node_helps=False, rejected_by=("PodGroup",)
    )


def failed_together(pods: Sequence[Pod], decision: Decision) -> tuple[Decision, ...]:
    """Return the decisions about the pods of a group of which one does not fit."""
    if len(pods) == 1:
        return (decision,)
    message = f"pod {decision.pod}, which is placed together with this one: {decision.message}"
    others = replace(decision, verdicts={}, near_miss=None, warnings=(), message=message)
    return tuple(decision if pod.uid == decision.uid else replace(others, uid=pod.uid, pod=pod.key) for pod in pods)


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
    preemptions
        Gives pods that fit nowhere the room of others; nobody gets that without it.
    """

    def __init__(
        self,
        cycle: Cycle,
        queue: SchedulingQueue,
        groups: PodGroups,
        storage: StorageAccess,
        policies: EffectivePolicies,
        requeuer: Requeuer,
        preemptions: Preemptions | None = None,
    ) -> None:
        self._preemptions = preemptions
        self._state = cycle.state
        self._cycle = cycle
        self._queue = queue
        self._groups = groups
        self._storage = storage
        self._policies = policies
        self._requeuer = requeuer

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
                self._file(decision, now, alone=True)
                return (decision,)
        if self._groups.name(pod.uid):
            return self._attempt_group(pod, now, explain=explain)
        decisions = self._storage.hold_back((pod,)) or (self._with_preemption(pod, now, explain=explain),)
        self._file(decisions[0], now, alone=True)
        return decisions

    def _with_preemption(self, pod: Pod, now: float, *, explain: bool) -> Decision:
        """Decide a pod; if it fits nowhere, others may have to end for it."""
        decision = self._decide(pod, explain=explain)
        if self._preemptions is None:
            return decision
        try:
            return self._preemptions.post_filter(pod, decision, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=internal_error(error), error=error)

    def _attempt_group(self, pod: Pod, now: float, *, explain: bool) -> tuple[Decision, ...]:
        """Decide a popped pod with all that belong to its group."""
        pods, missing = self._groups.gather(pod)
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
            if self._preemptions is not None:
                self._preemptions.placed(decision, now)
        elif decision.outcome is Outcome.ERROR:
            self._queue.back_off(uid, now)
        elif decision.outcome is Outcome.WAITING:
            self._queue.set_aside(uid, decision.helped_by, now)
        else:
            clock = self._state.nodes.clock if alone and decision.per_node else None
            equivalence = decision.equivalence if alone else None
            unschedulable_class = self._queue.add_unschedulable(
                uid, decision.helped_by, now, equivalence, decision.rejected_by, clock, decision.again_at
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
                self._take_kept_room(decision)
                self._state.wakes.hints |= assume(self._state, pod, decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's
            return Decision(pod.uid, pod.key, Outcome.ERROR, message=internal_error(error), error=error)
        return decision

    def _take_kept_room(self, decision: Decision) -> None:
        """Take the room that is kept for a pod, or give up that of lower priorities which a placement takes."""
        for uid in decision.displaces:
            self._state.give_up(uid)
        if self._preemptions is not None:
            self._preemptions.consume_hold(decision)

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
                self._take_kept_room(decision)
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
