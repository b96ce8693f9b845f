"""Nodes that take no pod, or not every pod, for now.

A node may be closed because its device plugins serve no pod: a lock is not released, or a plugin is silent
(:class:`ClosedNodes`). On other nodes, a pod that ended unserved blocks pods with the same plugin key
(:class:`UnservedPods`), or the kubelet has rejected a pod (:class:`KubeletRejections`).

A lock that no pod of ours holds closes its node, as soon as it is seen, to the pods that need that lock, until the
lock is gone or is found to be orphaned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from vgpu_scheduler.dialects import LockValue, NodeLock
from vgpu_scheduler.engine.closures import (
    ClosedByLock,
    ClosedByUnservedPods,
    ClosedFor,
    ClosureCause,
    NodeClosure,
    StandingClosure,
)
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.engine.locks import LockJudge, TakenLock, last_allocated
from vgpu_scheduler.engine.unserved_pods import UnservedPods
from vgpu_scheduler.kube import Node
from vgpu_scheduler.state import State

_StandingClosures = dict[NodeLock | ClosedFor, StandingClosure]
"""Why a node is closed, by which pods are kept away."""


class ClosedNodes:
    """Keeps track of which nodes are closed to which pods.

    Parameters
    ----------
    judge
        Judges locks. A lock that names a pod of ours does not close its node: that pod is waited for in the lane.
    state
        Knows the pods.
    kubelet_rejections
        The nodes that a kubelet's rejection closes to some pods.
    """

    def __init__(self, judge: LockJudge, state: State, kubelet_rejections: KubeletRejections) -> None:
        self.judge = judge
        self.kubelet_rejections = kubelet_rejections
        self.unserved_pods = UnservedPods(judge.node_side)
        self._state = state
        self._closures: dict[str, _StandingClosures] = {}
        self._judged_harmless: dict[str, dict[NodeLock, TakenLock]] = {}

    def observe(self, node: Node) -> bool:
        """Update the closures of a node by its locks; return whether it was opened to any pod."""
        closed = self._closures.get(node.name, _NONE)
        opened = False
        for lock in self.judge.node_side.locks:
            value, before = node.annotations.get(lock.annotation), closed.get(lock)
            taken = None if value is None else TakenLock(lock, value)
            if taken == (before.lock if isinstance(before, ClosedByLock) else None):
                continue
            cause = None if taken is None else self._cause(node, taken)
            if cause is not None and taken is not None:
                self.close(node.name, ClosedByLock(cause, taken))
            elif before is not None:
                self._open(node.name, before)
                opened = True
        return opened

    def close(self, node: str, closure: StandingClosure) -> None:
        """Keep pods away from a node until the lock changes, or until it is opened."""
        self._closures.setdefault(node, {})[closure.keeps_away] = closure
        if isinstance(closure, ClosedByLock):
            self._judged_harmless.get(node, {}).pop(closure.lock.kind, None)

    def open(self, node: str, closure: StandingClosure) -> bool:
        """Let pods go to a node again although the lock is still there: it is orphaned, or a pod of ours holds it.

        Returns
        -------
        bool
            Whether the node was closed for this reason.
        """
        if self._closures.get(node, _NONE).get(closure.keeps_away) != closure:
            return False
        self._open(node, closure)
        if isinstance(closure, ClosedByLock):
            self._judged_harmless.setdefault(node, {})[closure.lock.kind] = closure.lock
        return True

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self.kubelet_rejections.forget(node)
        self._judged_harmless.pop(node, None)
        self._closures.pop(node, None)

    def closures(self, node: str) -> tuple[NodeClosure, ...]:
        """Return why a node is closed; empty if it is open, or unknown."""
        blocked = self.unserved_pods.plugin_keys(node) if self._state.node(node) is not None else ()
        lost = map(ClosedByUnservedPods, blocked)
        return (*self._closures.get(node, _NONE).values(), *lost)

    def closed_to(self, lock: NodeLock | None, plugin_key: str = "", *, serialized: bool) -> Mapping[str, ClosureCause]:
        """Return the nodes that are closed to pods with cards, with the cause.

        Parameters
        ----------
        lock
            The lock that the pods need; None for none.
        plugin_key
            By which the device plugin identifies the pods, where it has one.
        serialized
            Whether the pods are served one after the other.
        """
        found = (
            dict.fromkeys(self.unserved_pods.nodes(plugin_key), ClosureCause.DEVICES_NOT_TAKEN) if serialized else {}
        )
        for node, closures in self._closures.items():
            closure = _first(closures, lock, serialized=serialized)
            if closure is not None:
                found[node] = closure.cause
        return found

    def is_closed(self, node: str, lock: NodeLock | None, plugin_key: str = "", *, serialized: bool) -> bool:
        """Tell whether a node is closed to pods with cards; see :meth:`closed_to`."""
        if _first(self._closures.get(node, _NONE), lock, serialized=serialized) is not None:
            return True
        return serialized and node in self.unserved_pods.nodes(plugin_key)

    def __bool__(self) -> bool:
        """Tell whether any node is closed to any pod."""
        return bool(self._closures or self.kubelet_rejections or self.unserved_pods)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes whose device plugins serve no pod, or not every pod."""
        return iter(dict.fromkeys((*self._closures, *self.unserved_pods)))

    def counts(self) -> Mapping[ClosureCause, int]:
        """Return the number of closed nodes by cause."""
        found: Counter[ClosureCause] = Counter(dict.fromkeys(ClosureCause, 0))
        for closures in self._closures.values():
            found.update({closure.cause for closure in closures.values()})
        found[ClosureCause.REJECTED_BY_KUBELET] = len(self.kubelet_rejections)
        found[ClosureCause.DEVICES_NOT_TAKEN] = sum(1 for _ in self.unserved_pods)
        return found

    def _open(self, node: str, closure: StandingClosure) -> None:
        closures = self._closures[node]
        del closures[closure.keeps_away]
        if not closures:
            del self._closures[node]

    def _cause(self, node: Node, lock: TakenLock) -> ClosureCause | None:
        """Return why a lock closes a node, from what is known now; None if it does not."""
        known = self._judged_harmless.get(node.name)
        if known is not None and known.get(lock.kind) is not None:
            if known[lock.kind] == lock:
                return None
            del known[lock.kind]
        try:
            parsed = self.judge.node_side.parse_lock(lock.value)
        except ValueError:
            return ClosureCause.LOCK_MALFORMED
        return None if self.is_ours(node, parsed) else ClosureCause.LOCK_HELD

    def is_ours(self, node: Node, value: LockValue) -> bool:
        """Tell whether a node's lock belongs to a known pod of ours.

        A bound pod counts, too: its plugin may be serving it.
        """
        owner = self._state.find(value.namespace, value.name) if value.owner else self._state.pod(last_allocated(node))
        return owner is not None and owner.scheduler_name in self.judge.scheduler_names


def _first(closures: _StandingClosures, lock: NodeLock | None, *, serialized: bool) -> StandingClosure | None:
    """Return what closes a node to pods with cards that need a lock (None: that need none)."""
    closure = closures.get(ClosedFor.WITH_CARDS)
    if closure is None and serialized:
        closure = closures.get(ClosedFor.SERVED_IN_TURN) or (closures.get(lock) if lock else None)
    return closure


_NONE: _StandingClosures = {}
