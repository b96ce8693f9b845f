"""Requeues unschedulable pods that a change in the cluster may help, as kube-scheduler's queueing hints do."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.closed_nodes import RejectedNodes
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.policy_report import EffectivePolicies
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pod import LastAttempt, QueueEvent, UnschedulableClass
from vgpu_scheduler.engine.quotas import Quotas
from vgpu_scheduler.engine.waiting_needs import WaitingNeeds
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Hint

__all__ = ["Requeuer"]

_FEW: Final = 32
"""As long as no more classes wait, each is tried on all nodes when a change could help it: what it says stays exact."""
_OF_ROOM: Final = Hint.NODE | Hint.RESOURCES | Hint.DEVICES | Hint.DEVICE_FREED | Hint.ALLOCATABLE
"""Changes after which a node helps whom it has room for."""
_MOST_LOOKED_AT: Final = 1024
"""If more nodes have changed, all are asked."""


class Requeuer:
    """Requeues the pods that a change may help, and tells which nodes to look at for them.

    Whatever alters a decision about a node raises that node's version. So versions say which nodes have changed, and
    nobody who gives a hint has to.

    Parameters
    ----------
    classes, queue, policies, quotas
        What it works with.
    needs
        What those need whom each node rejects for what it is by itself; the queue tells it which classes have gone.
    rejected
        The nodes that are closed to some pods for a time.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        queue: SchedulingQueue,
        policies: EffectivePolicies,
        quotas: Quotas,
        needs: WaitingNeeds,
        rejected: RejectedNodes,
    ) -> None:
        self._state = classes.state
        self._classes = classes
        self._queue = queue
        self._policies = policies
        self._quotas = quotas
        self._needs = needs
        self._rejected = rejected
        self._told_of = 0
        """The version of the nodes up to which their changes were held against the waiting pods."""

    def drain(self, now: float) -> None:
        """Requeue the pods that the changes since the last call may help; always in the same order."""
        if self._rejected.expire(now):
            self._state.wakes.hints |= Hint.REJECTION
        if self._state.wakes:
            found = self._state.wakes.take()
            if found.every_policy or found.policies:
                self._wake_by_policy(None if found.every_policy else found.policies, now)
            self._wake_by_quota(found.quotas | self._quotas.limited(found.returned), now)
            for uid, changed in found.pods.items():
                self._queue.wake([uid], now, QueueEvent.of(changed))
            self.hint(found.hints, now)
        if self._state.interpod.any_forgotten and not self._queue.anybody_waits_for(Hint.AFFINITY):
            self._state.interpod.nobody_waits()

    def hint(self, hints: Hint, now: float) -> None:
        """Requeue the pods that a change could help; per-node rejections only where a changed node has room."""
        if not hints:
            return
        few = len(self._needs) <= _FEW
        helped = [key for key in self._needs if key.waits_for & hints] if few else self._helped(hints)
        self._told_of = self._state.nodes.clock
        self._queue.hint(hints, now, helped, anew=few)

    def _wake_by_policy(self, namespaces: set[str] | None, now: float) -> None:
        """Requeue the pods whose effective policy has changed, in some namespaces or in all."""
        changed = []
        for uid in self._queue.unschedulable():
            pod = self._state.pod(uid)
            about = pod is not None and (namespaces is None or pod.namespace in namespaces)
            if pod is not None and about and not self._policies.as_decided(pod):
                changed.append(uid)
        self._queue.wake(changed, now, QueueEvent.POLICY_UPDATE)

    def _wake_by_quota(self, namespaces: set[str], now: float) -> None:
        """Requeue the pods that wait for the quota of some namespaces."""
        if namespaces:
            waiting = ((uid, self._state.pod(uid)) for uid in self._queue.unschedulable(Hint.QUOTA))
            woken = [uid for uid, pod in waiting if pod is not None and pod.namespace in namespaces]
            self._queue.wake_equivalent(woken, now, QueueEvent.QUOTA_UPDATE)

    def _helped(self, hints: Hint) -> list[UnschedulableClass]:
        """Return the classes that the changed nodes may have room for, and those that wait for other changes."""
        found = self._needs.helped_by(self._state.nodes.changed_since(self._told_of))
        others = hints & ~_OF_ROOM
        if others:
            found += [key for key in self._needs if key.waits_for & others]
        return list(dict.fromkeys(found))

    # Of those whom nodes reject for what they are --------------------------------------------------------------------

    def note(self, pod: Pod, unschedulable_class: UnschedulableClass | None) -> None:
        """Note what the pods of a class need, of which one was just found unschedulable."""
        if unschedulable_class is None or not unschedulable_class.per_node:
            return
        need = self._classes.need(pod)
        if need is not None:
            self._needs.put(unschedulable_class, pod, *need)

    def changed_since(self, pod: Pod, last_attempt: LastAttempt) -> NDArray[np.int64] | None:
        """Return the nodes that may have come to help a pod since it was rejected; None if all have to be asked."""
        if self._state.nominations or not self._policies.as_decided(pod):
            return None
        rows = self._state.nodes.changed_since(last_attempt.clock)
        return rows if rows.size <= _MOST_LOOKED_AT else None
