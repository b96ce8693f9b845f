"""Requeues unschedulable pods that a change in the cluster may help, as kube-scheduler's queueing hints do.

Thousands of pods may wait whose requests all differ. When a card becomes free, a few columns over the classes of
these pods tell which of them could use it (:class:`WaitingNeeds`), so that only those are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import CardNeed, amounts_of
from vgpu_scheduler.engine.equivalence import ResolvedClaims
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent, RetryBasis, UnschedulableClass
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.kube import CPU, MEMORY, Pod
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.state import State

_FEW: Final = 32
"""Up to this many unschedulable classes are tried on all nodes at each event that could help, so that the conditions
of their pods stay exact; with more classes, only changed nodes are tried."""
_OF_ROOM: Final = (
    ClusterEvent.NODE_ADD
    | ClusterEvent.ASSIGNED_POD_DELETE
    | ClusterEvent.DEVICE_ADD
    | ClusterEvent.DEVICE_FREED
    | ClusterEvent.NODE_ALLOCATABLE
)
"""Changes after which a node helps only the pods that it has room for."""
_MOST_LOOKED_AT: Final = 1024
"""If more nodes than this have changed, all nodes are tried."""


class Requeuer:
    """Requeues the pods that a change may help, and tells which nodes to look at for them.

    Any change that affects a decision about a node raises that node's version. So versions tell which nodes have
    changed, and an event does not need to name them.

    Parameters
    ----------
    classes, queue, policy_tracker, quotas
        Collaborators.
    needs
        What a node and its cards must at least have free before a class with ``node_local`` fits. The queue removes a
        class from it when the last pod of the class leaves.
    kubelet_rejections
        The nodes that are closed to some pods for a time.
    """

    def __init__(
        self,
        classes: EquivalenceClasses,
        queue: SchedulingQueue,
        policy_tracker: PolicyTracker,
        quotas: QuotaLimits,
        needs: WaitingNeeds,
        kubelet_rejections: KubeletRejections,
    ) -> None:
        self._state = classes.state
        self._classes = classes
        self._queue = queue
        self._policy_tracker = policy_tracker
        self._quotas = quotas
        self._needs = needs
        self._kubelet_rejections = kubelet_rejections
        self._compared_version = 0
        """The version of the nodes up to which their changes were compared with the waiting pods' needs."""

    def process_cluster_events(self, now: float) -> None:
        """Requeue the pods that the changes since the last call may help, in a deterministic order."""
        if self._kubelet_rejections.expire(now):
            self._state.pending_events.events |= ClusterEvent.KUBELET_REJECTION
        if self._state.pending_events:
            found = self._state.pending_events.take()
            if found.every_policy or found.policies:
                self._wake_for_policy(None if found.every_policy else found.policies, now)
            if found.victims:  # pods that found no victims may find some now
                woken = self._queue.unschedulable(ClusterEvent.BUDGET)
                self._queue.wake_equivalent(woken, now, QueueEvent.POLICY_UPDATE)
            self._wake_for_quota(found.quotas | self._quotas.limited(found.quota_freed), now)
            for uid, event in found.pods.items():
                self._queue.wake([uid], now, QueueEvent(event))
            self.requeue(found.events, now)
        if self._state.interpod.any_forgotten and not self._queue.anybody_waits_for(ClusterEvent.ASSIGNED_POD_CHANGE):
            self._state.interpod.nobody_waits()

    def requeue(self, events: ClusterEvent, now: float) -> None:
        """Requeue the pods that a change could help; with ``node_local`` only where a changed node has room."""
        if not events:
            return
        few = len(self._needs) <= _FEW
        helped = [key for key in self._needs if key.waits_for & events] if few else self._helped(events)
        self._compared_version = self._state.nodes.latest_version
        self._queue.requeue(events, now, helped, anew=few)

    def _wake_for_policy(self, namespaces: set[str] | None, now: float) -> None:
        """Requeue the pods whose effective policy has changed, in the given namespaces (None: in all)."""
        changed = []
        for uid in self._queue.unschedulable():
            pod = self._state.pod(uid)
            about = pod is not None and (namespaces is None or pod.namespace in namespaces)
            if pod is not None and about and not self._policy_tracker.policy_unchanged_since_decision(pod):
                changed.append(uid)
        self._queue.wake(changed, now, QueueEvent.POLICY_UPDATE)

    def _wake_for_quota(self, namespaces: set[str], now: float) -> None:
        """Requeue the pods that wait for the quota of the given namespaces."""
        if namespaces:
            waiting = ((uid, self._state.pod(uid)) for uid in self._queue.unschedulable(ClusterEvent.QUOTA))
            woken = [uid for uid, pod in waiting if pod is not None and pod.namespace in namespaces]
            self._queue.wake_equivalent(woken, now, QueueEvent.QUOTA_UPDATE)

    def _helped(self, events: ClusterEvent) -> list[UnschedulableClass]:
        """Return the classes that the changed nodes may have room for, and those waiting for events other than room."""
        found = self._needs.helped_by(self._state.nodes.changed_since(self._compared_version))
        others = events & ~_OF_ROOM
        if others:
            found += [key for key in self._needs if key.waits_for & others]
        return list(dict.fromkeys(found))

    # Pods that each node rejects by its own state alone --------------------------------------------------------------

    def note(self, pod: Pod, unschedulable_class: UnschedulableClass | None) -> None:
        """Record what the pods of a class need; one of them was just found unschedulable."""
        if unschedulable_class is None or not unschedulable_class.node_local:
            return
        need = self._classes.need(pod)
        if need is not None:
            self._needs.put(unschedulable_class, pod, *need)

    def changed_since(self, pod: Pod, retry_basis: RetryBasis) -> NDArray[np.int64] | None:
        """Return the nodes that may help a pod since it was rejected; None if all nodes have to be tried."""
        if self._state.nominations or not self._policy_tracker.policy_unchanged_since_decision(pod):
            return None
        rows = self._state.nodes.changed_since(retry_basis.nodes_version)
        return rows if rows.size <= _MOST_LOOKED_AT else None


_MOST_NODES: Final = 64
"""If more nodes than this change at once, every class counts as helped."""
_FIRST: Final = 64
_NOBODY: Final = -1
_CPU, _MEMORY, _DIALECT, _VENDOR = range(4)
_AMOUNT, _PERCENT, _END = 4, 7, 10
"""Columns: amounts and percentages needed of the first dimensions of a card."""
_DIMENSIONS: Final = _PERCENT - _AMOUNT


class WaitingNeeds:
    """The least that each class of unschedulable pods needs of a node.

    Parameters
    ----------
    state
        The cluster's state.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._dialects: dict[str, int] = {}
        self._slots: dict[UnschedulableClass, int] = {}
        self._keys: list[UnschedulableClass] = []
        self._needs = np.zeros((_END, _FIRST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[UnschedulableClass]:
        return iter(self._keys)

    def put(self, key: UnschedulableClass, pod: Pod, claimed: ResolvedClaims, need: CardNeed | None) -> None:
        """Record what the pods of a class need.

        Parameters
        ----------
        pod, claimed
            A pod of the class, and its resolved claims on devices.
        need
            What one card must have free for it; None if unknown.
        """
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._keys)
            self._keys.append(key)
            if slot == self._needs.shape[1]:
                self._needs = np.pad(self._needs, ((0, 0), (0, slot)))
        needs = self._needs[:, slot]
        needs[:] = 0
        needs[_CPU], needs[_MEMORY] = (pod.spec.requests.get(name, 0) for name in (CPU, MEMORY))
        needs[_DIALECT] = _NOBODY
        if need is not None:
            needs[_DIALECT] = self._dialects.setdefault(claimed.dialect, len(self._dialects))
            needs[_VENDOR] = self._state.matrix(claimed.dialect).vendor_number(need.vendor)
            needs[_AMOUNT:_PERCENT], needs[_PERCENT:] = need.amounts[:_DIMENSIONS], need.percent[:_DIMENSIONS]

    def discard(self, key: UnschedulableClass) -> None:
        """Remove a class, if it is known."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return
        last = self._keys.pop()
        if slot < len(self._keys):
            self._keys[slot], self._slots[last] = last, slot
            self._needs[:, slot] = self._needs[:, len(self._keys)]

    def helped_by(self, rows: NDArray[np.int64]) -> list[UnschedulableClass]:
        """Return the classes that one of the given node rows may have room for; other filters are ignored."""
        if not self._keys or not rows.size:
            return []
        if rows.size > _MOST_NODES:
            return list(self._keys)
        needs = self._needs[:, : len(self._keys)]
        found = np.zeros(len(self._keys), dtype=np.bool_)
        for row in rows.tolist():
            found |= self._may_hold(needs, row)
        return [self._keys[slot] for slot in np.flatnonzero(found).tolist()]

    def _may_hold(self, needs: NDArray[np.int64], row: int) -> NDArray[np.bool_]:
        """Tell which classes a node may have room for, shape (classes,)."""
        nodes = self._state.nodes
        free = nodes.allocatable[row] - nodes.used[row]
        enough: NDArray[np.bool_] = (needs[_CPU] <= free[nodes.resources.columns[CPU]]) | (needs[_CPU] == 0)
        enough &= (needs[_MEMORY] <= free[nodes.resources.columns[MEMORY]]) | (needs[_MEMORY] == 0)
        for dialect, number in self._dialects.items():
            theirs = np.flatnonzero(needs[_DIALECT] == number)
            enough[theirs] &= self._has_card(needs[:, theirs], row, dialect)
        return enough

    def _has_card(self, needs: NDArray[np.int64], row: int, dialect: str) -> NDArray[np.bool_]:
        """Tell which classes a card of a node may have enough for, shape (classes,)."""
        columns = self._state.matrix(dialect).columns
        cards = slice(int(columns.first[row]), int(columns.last[row]))
        vendor, pieces = columns.vendor[cards], columns.partitioned[cards]
        total, used = columns.total[cards, :_DIMENSIONS], columns.used[cards, :_DIMENSIONS]
        enough = needs[_VENDOR][:, None] == vendor
        for dimension in range(total.shape[1]):
            amounts, percent = needs[_AMOUNT + dimension][:, None], needs[_PERCENT + dimension][:, None]
            asked = amounts_of(amounts, percent, total[:, dimension])
            # A MIG card's totals do not tell what its pieces have, so it always counts as enough.
            enough &= (asked == 0) | (asked <= total[:, dimension] - used[:, dimension]) | pieces
        answer: NDArray[np.bool_] = enough.any(axis=1)
        return answer
