"""Pods without a node: which of them wait in the scheduling queue, behind gates, or for word of their final state."""

from __future__ import annotations

from collections.abc import Collection

from vgpu_scheduler.engine.final_states import UnknownFinalStates
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent, Requeue, asks_differently
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import gated, needs_scheduling
from vgpu_scheduler.state import Phase, State


class UnboundPods:
    """Adds pods to the scheduling queue when they have to be placed, and removes them when they need not be any more.

    Parameters
    ----------
    state, queue, storage, preemptions
        Parts of the engine.
    """

    def __init__(self, state: State, queue: SchedulingQueue, storage: StorageAccess, preemptions: Preemptions) -> None:
        self._state = state
        self._queue = queue
        self._storage = storage
        self._preemptions = preemptions
        self._gated: set[str] = set()
        self._final_states = UnknownFinalStates()
        """The pods that left a selection of unbound pods: each was bound, or is gone."""

    @property
    def gated(self) -> int:
        """Number of our pods that wait behind scheduling gates."""
        return len(self._gated)

    def needs_scheduling(self, pod: Pod) -> bool:
        """Tell whether a pod has to be placed."""
        return pod.uid not in self._final_states and needs_scheduling(pod)

    # The scheduling queue --------------------------------------------------------------------------------------------

    def observe(self, pod: Pod, before: Pod | None, now: float) -> None:
        """Take in a pod of ours, which the state knows already.

        Parameters
        ----------
        before
            Its last observation; None for a new pod.
        """
        self._observe_gates(pod, now)
        has_reservation = self._state.reservation(pod.uid) is not None
        if not self.needs_scheduling(pod):
            self._storage.forget(pod)
            self._preemptions.withdraw(pod.uid)
            if not has_reservation or pod.node_name or pod.terminal:
                self._queue.remove(pod.uid)
        elif not has_reservation:
            self._storage.note(pod)
            if pod.uid not in self._queue or before is None or asks_differently(before, pod):
                self._queue.add(pod.uid, pod.priority, now, created=pod.creation_timestamp)

    def _observe_gates(self, pod: Pod, now: float) -> None:
        if gated(pod) and not pod.node_name and not pod.terminal:
            self._gated.add(pod.uid)
        elif pod.uid in self._gated:
            self._gated.remove(pod.uid)
            self._preemptions.evaluator.ungated(pod.uid, now)

    def requeue(self, uid: str, now: float, requeue: Requeue, at_least: float) -> None:
        """Queue a pod again whose placement was given back, if it still has to be placed.

        Parameters
        ----------
        requeue
            Whether it is tried at once or backs off.
        at_least
            Minimum back-off (seconds).
        """
        pod = self._state.pod(uid)
        if pod is None or not self.needs_scheduling(pod) or self._state.reservation(uid) is not None:
            self._queue.remove(uid)
        elif requeue is Requeue.NOW or uid not in self._queue:
            self._queue.add(uid, pod.priority, now, QueueEvent.ATTEMPT_FAILURE, created=pod.creation_timestamp)
        else:
            self._queue.back_off(uid, now, at_least)

    def forget(self, uid: str) -> None:
        """Note that a pod is bound or gone."""
        pod = self._state.pod(uid)
        if pod is not None:
            self._storage.forget(pod)
        self._queue.remove(uid)
        self._gated.discard(uid)

    # Unknown final states --------------------------------------------------------------------------------------------

    def is_outdated(self, pod: Pod) -> bool:
        """Tell whether this version of a pod is from before it left its selection."""
        return pod.resource_version < self._final_states.version(pod.uid)

    def final_state_known(self, uid: str) -> None:
        """Note that it is known what became of a pod."""
        self._final_states.resolve(uid)

    def final_states_known(self) -> None:
        """Note that it is known what became of all pods, as after a list of all of them."""
        self._final_states.clear()

    def leave_selection(self, uid: str, version: int, now: float) -> None:
        """Note that a pod left its selection of unbound pods, as of a resource version.

        It was bound, is gone, or does not count any more. Until that is known it stays charged for what it holds.
        """
        if self._state.pod(uid) is None or self._state.pod_version(uid) >= version:
            return
        self._final_states.note(uid, version, now)
        self._gated.discard(uid)
        if self._state.reservation(uid) is None:
            self._queue.remove(uid)
            self._preemptions.withdraw(uid)

    def gone_as_of(self, version: int, unreadable: Collection[str]) -> list[tuple[str, int]]:
        """Return the pods that are gone once all pods bound up to a resource version have been shown.

        Parameters
        ----------
        unreadable
            ``namespace/name`` of shown pods that could not be read: a pod of that name may be bound.

        Returns
        -------
        list of tuple
            The UID of each, with the resource version as of which it left its selection.
        """

        def may_be_bound(uid: str) -> bool:
            pod = self._state.pod(uid)
            return pod is not None and pod.key in unreadable

        left = self._final_states.resolve_up_to(version, may_be_bound)
        return [(uid, left_at) for uid, left_at in left if not self._is_confirmed(uid)]

    def unresolved(self, moment: float) -> list[Pod]:
        """Return the pods that left their selection before a moment (seconds, monotonic) and still hold something."""
        holding = self._final_states.older_than(moment, self._state.holds_something)
        pods = (self._state.pod(uid) for uid in holding if not self._is_confirmed(uid))
        return [pod for pod in pods if pod is not None]

    def _is_confirmed(self, uid: str) -> bool:
        """Tell whether the API server confirmed a pod's Binding, but no stream has shown it yet."""
        reservation = self._state.reservation(uid)
        return reservation is not None and reservation.phase is Phase.CONFIRMED
