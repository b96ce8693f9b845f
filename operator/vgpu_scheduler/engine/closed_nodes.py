"""Nodes that take no pod, or not every pod, for now.

The device plugins of some serve nobody: a lock is not released, or a plugin is silent (:class:`ClosedNodes`). On some a
pod blocks others of its key (:class:`UnservedPods`). Of some the kubelet rejected one (:class:`KubeletRejections`): it
knows more of its node than the API server shows (pods of other schedulers that were bound at the same moment, NUMA
nodes, a device plugin that fails), and the pod that replaces it would otherwise get the same node again.

A lock is part of what is known of a node. One that no pod of ours holds closes its node to the pods that need it from
the moment that it is seen, until it goes or somebody finds out that nobody uses it any more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.dialects import LockValue, NodeLock, NodeSide, UnservedPod
from vgpu_scheduler.engine.locks import LockJudge, last_allocated
from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.state import State

__all__ = [
    "ANY_CARD",
    "IN_TURN",
    "KUBELET_REJECTION_WAIT",
    "ClosedNodes",
    "ClosureCause",
    "KubeletRejections",
    "NodeClosure",
    "replaced_with",
]


class UnservedPods:
    """Remembers, by plugin key and node, the pods that ended before their device plugin served them.

    The plugin would take each of them for the next pod with the same key.

    Parameters
    ----------
    node_side
        Tells where a pod ended unserved, and by which key its device plugin knows it.
    """

    def __init__(self, node_side: NodeSide) -> None:
        self._node_side = node_side
        self._lost: dict[str, UnservedPod] = {}
        self._pods: dict[
            str, dict[str, dict[str, None]]
        ] = {}  # by plugin key and node, the UIDs in the order of their loss

    def observe(self, pod: Pod) -> bool:
        """Take in a pod as it is now; return whether a plugin key came free by that."""
        lost = self._node_side.unserved_pod(pod)
        if lost == self._lost.get(pod.uid):
            return False
        freed = self.forget(pod.uid)
        if lost is not None:
            self._lost[pod.uid] = lost
            self._pods.setdefault(lost.plugin_key, {}).setdefault(lost.node, {})[pod.uid] = None
        return freed

    def forget(self, uid: str) -> bool:
        """Take in that a pod is gone; return whether a plugin key came free by that."""
        lost = self._lost.pop(uid, None)
        if lost is None:
            return False
        nodes = self._pods[lost.plugin_key]
        del nodes[lost.node][uid]
        if nodes[lost.node]:
            return False
        del nodes[lost.node]
        if not nodes:
            del self._pods[lost.plugin_key]
        return True

    def nodes(self, plugin_key: str) -> Collection[str]:
        """Return the nodes at which a plugin key is blocked."""
        return self._pods.get(plugin_key, _NOWHERE).keys()

    def pods(self, node: str, plugin_key: str) -> Collection[str]:
        """Return the UIDs of the pods that block a plugin key at a node, the first one first."""
        return self._pods.get(plugin_key, _NOWHERE).get(node, _NOBODY)

    def plugin_keys(self, node: str) -> Iterator[str]:
        """Return the plugin keys that are blocked at a node."""
        return (plugin_key for plugin_key, nodes in self._pods.items() if node in nodes)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes at which any plugin key is blocked."""
        return iter({lost.node: None for lost in self._lost.values()})

    def __bool__(self) -> bool:
        """Tell whether any plugin key is blocked."""
        return bool(self._lost)


_NOBODY: dict[str, None] = {}
_NOWHERE: dict[str, dict[str, None]] = {}


class ClosureCause(Enum):
    """Why a node is closed; the value is what a metric calls it."""

    LOCK_HELD = "lock_held"
    LOCK_MALFORMED = "lock_malformed"
    PLUGIN_SILENT = "plugin_silent"
    POD_STARTING = "pod_starting"
    BINDING_IN_DOUBT = "binding_in_doubt"
    POD_UNREADABLE = "pod_unreadable"
    REJECTED_BY_KUBELET = "pod_rejected"
    DEVICES_NOT_TAKEN = "devices_not_taken"

    @property
    def text(self) -> str:
        """What a message counts such nodes under."""
        return _TEXTS[self]


_TEXTS = {
    ClosureCause.LOCK_HELD: "node(s) had their device lock held by another pod",
    ClosureCause.LOCK_MALFORMED: "node(s) had a malformed device lock",
    ClosureCause.PLUGIN_SILENT: "node(s) had a device plugin that does not answer",
    ClosureCause.POD_STARTING: "node(s) had a pod with devices that has not started",
    ClosureCause.BINDING_IN_DOUBT: "node(s) had a pod with devices of which it is not known whether it was bound",
    ClosureCause.POD_UNREADABLE: "node(s) had a pod that cannot be read and may be on any card",
    ClosureCause.REJECTED_BY_KUBELET: "node(s) rejected a pod like this one a moment ago",
    ClosureCause.DEVICES_NOT_TAKEN: "node(s) had a pod that never took its devices",
}


IN_TURN = ""
"""Stands for a lock where a node is closed to all pods that are served in turn."""
ANY_CARD = "*"
"""Stands for a lock where a node is closed to all pods that ask for cards."""


@dataclass(frozen=True, slots=True)
class NodeClosure:
    """Why a node is closed, and to which pods.

    Attributes
    ----------
    lock
        Which pods are kept away: the annotation of the lock that they need, :data:`IN_TURN` for those that are bound in
        turn, :data:`ANY_CARD` for all with cards.
    value
        What closes the node: the value of the lock that somebody holds, the UID of a pod that its plugin has not
        answered or whose Binding is in doubt, or the key of a pod whose allocation cannot be read.
    plugin_key
        Where a pod ended unserved, the key by which plugins find pods: those with the same one are kept away, and
        ``lock`` and ``value`` are empty.
    """

    cause: ClosureCause
    lock: str
    value: str
    plugin_key: str = ""


class ClosedNodes:
    """Keeps which nodes are closed to which pods.

    Parameters
    ----------
    judge
        Knows the locks. One that names a pod of ours is ours: its pod is waited for in the node's lane.
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
        self._closures: dict[str, dict[str, NodeClosure]] = {}
        self._judged_harmless: dict[str, dict[str, str]] = {}

    def observe(self, node: Node) -> bool:
        """Look at the locks of a node; return whether it was opened to any pod."""
        closed = self._closures.get(node.name, _NONE)
        opened = False
        for lock in self.judge.node_side.locks:
            value = node.annotations.get(lock.annotation)
            before = closed.get(lock.annotation)
            if value == (before.value if before else None):
                continue
            cause = None if value is None else self._cause(node, lock, value)
            if cause is not None and value is not None:
                self.close(node.name, NodeClosure(cause, lock.annotation, value))
            elif before is not None:
                self._open(node.name, before)
                opened = True
        return opened

    def close(self, node: str, closure: NodeClosure) -> None:
        """Keep pods away from a node until the lock changes, or until it is opened."""
        self._closures.setdefault(node, {})[closure.lock] = closure
        self._judged_harmless.get(node, {}).pop(closure.lock, None)

    def open(self, node: str, closure: NodeClosure) -> bool:
        """Let pods go to a node again although the lock is still there: nobody uses it any more, or a pod of ours does.

        Returns
        -------
        bool
            Whether the node was closed for this reason.
        """
        if self._closures.get(node, _NONE).get(closure.lock) != closure:
            return False
        self._open(node, closure)
        if closure.lock not in {IN_TURN, ANY_CARD}:
            self._judged_harmless.setdefault(node, {})[closure.lock] = closure.value
        return True

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self.kubelet_rejections.forget(node)
        self._judged_harmless.pop(node, None)
        self._closures.pop(node, None)

    def closures(self, node: str) -> tuple[NodeClosure, ...]:
        """Return why a node is closed; empty if it is not, or is not known."""
        blocked = self.unserved_pods.plugin_keys(node) if self._state.node(node) is not None else ()
        lost = (NodeClosure(ClosureCause.DEVICES_NOT_TAKEN, "", "", plugin_key) for plugin_key in blocked)
        return (*self._closures.get(node, _NONE).values(), *lost)

    def closed_to(self, lock: NodeLock | None, plugin_key: str = "", *, serialized: bool) -> Mapping[str, ClosureCause]:
        """Return the nodes that are closed to the pods with cards that need a lock, or none, and why.

        Parameters
        ----------
        lock
            The lock.
        plugin_key
            What the device plugin knows them by, where it goes by that.
        serialized
            Whether they are served in turn.
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
        """Tell whether a node is closed to such pods; see :meth:`closed_to`."""
        if _first(self._closures.get(node, _NONE), lock, serialized=serialized) is not None:
            return True
        return serialized and node in self.unserved_pods.nodes(plugin_key)

    def __bool__(self) -> bool:
        """Tell whether any node is closed to any pod."""
        return bool(self._closures or self.kubelet_rejections or self.unserved_pods)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes whose device plugins serve nobody, or not everybody."""
        return iter(dict.fromkeys((*self._closures, *self.unserved_pods)))

    def counts(self) -> Mapping[ClosureCause, int]:
        """Return how many nodes are closed for each cause."""
        found: Counter[ClosureCause] = Counter(dict.fromkeys(ClosureCause, 0))
        for closures in self._closures.values():
            found.update({closure.cause for closure in closures.values()})
        found[ClosureCause.REJECTED_BY_KUBELET] = len(self.kubelet_rejections)
        found[ClosureCause.DEVICES_NOT_TAKEN] = sum(1 for _ in self.unserved_pods)
        return found

    def _open(self, node: str, closure: NodeClosure) -> None:
        closures = self._closures[node]
        del closures[closure.lock]
        if not closures:
            del self._closures[node]

    def _cause(self, node: Node, lock: NodeLock, value: str) -> ClosureCause | None:
        """Return why the value of a lock closes a node, as far as what is known tells; None if it does not."""
        known = self._judged_harmless.get(node.name)
        if known is not None and known.get(lock.annotation) is not None:
            if known[lock.annotation] == value:
                return None
            del known[lock.annotation]
        try:
            parsed = self.judge.node_side.parse_lock(value)
        except ValueError:
            return ClosureCause.LOCK_MALFORMED
        return None if self.is_ours(node, parsed) else ClosureCause.LOCK_HELD

    def is_ours(self, node: Node, value: LockValue) -> bool:
        """Tell whether a lock of a node is that of a pod of ours which is known.

        A bound one counts, too: its plugin may be serving it.
        """
        owner = self._state.find(value.namespace, value.name) if value.owner else self._state.pod(last_allocated(node))
        return owner is not None and owner.scheduler_name in self.judge.scheduler_names


def _first(closures: Mapping[str, NodeClosure], lock: NodeLock | None, *, serialized: bool) -> NodeClosure | None:
    """Return what closes a node to pods with cards that need a lock, or none."""
    closure = closures.get(ANY_CARD)
    if closure is None and serialized:
        closure = closures.get(IN_TURN) or (closures.get(lock.annotation) if lock else None)
    return closure


_NONE: Mapping[str, NodeClosure] = {}


KUBELET_REJECTION_WAIT = 60.0
"""Seconds."""
_REPEATS = 600.0
"""Seconds within which a second rejection is something about the node."""


def replaced_with(pod: Pod) -> Hashable:
    """Return what a pod has in common with those that replace it: its controller, else its namespace and its spec."""
    return pod.owner or (pod.namespace, pod.spec.fingerprint)


class KubeletRejections:
    """Keeps which nodes are closed to which pods because one like them was rejected there.

    Parameters
    ----------
    wait
        Seconds for which they are.
    """

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._closed: dict[Hashable, dict[str, float]] = {}
        self._order: deque[tuple[float, Hashable, str]] = deque()
        self._last: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        """How many pods were rejected for each reason of the kubelet."""

    def observe(self, before: Pod | None, pod: Pod, node: Node | None, now: float) -> tuple[Problem, ...]:
        """Look at a pod of ours; return what is to be told where its kubelet has rejected it since it was seen last.

        Parameters
        ----------
        before
            The last observation; None for a pod that was not known. What happened to that is an old story.
        node
            The node of the pod.
        now
            Seconds, monotonic.
        """
        if not pod.rejection or before is None or before.terminal:
            return ()
        self.counts[pod.rejection] += 1
        name = pod.node_name
        if self._wait > 0:
            until = now + self._wait
            self._closed.setdefault(replaced_with(pod), {})[name] = until
            self._order.append((until, replaced_with(pod), name))
        text = f"the kubelet of node {name} rejected the pod: {pod.rejection}"
        told = f"{text}; for {self._wait:.0f} s pods like it go to other nodes" if self._wait > 0 else text
        problem = Problem("Pod", pod.namespace, pod.name, pod.uid, EventReason.REJECTED_BY_KUBELET, told)
        repeats = now - self._last.get(name, -_REPEATS) < _REPEATS
        self._last[name] = now
        if node is None or not repeats:
            return (problem,)
        told = f"the kubelet rejects pods that were placed here with what is known of the node: {pod.rejection}"
        return problem, Problem("Node", "", node.name, node.uid, EventReason.REJECTS_PODS, told, each_time=True)

    def closed_to(self, pod: Pod) -> Collection[str]:
        """Return the nodes that a pod does not go to for now."""
        closed = self._closed.get(replaced_with(pod)) if self._closed else None
        return () if closed is None else closed.keys()

    def expire(self, now: float) -> bool:
        """Open the nodes whose time is over; return whether there were any."""
        opened = False
        while self._order and self._order[0][0] <= now:
            until, key, node = self._order.popleft()
            closed: Mapping[str, float] = self._closed.get(key, {})
            if closed.get(node) == until:  # else it was rejected there again
                opened = True
                del self._closed[key][node]
                if not self._closed[key]:
                    del self._closed[key]
        return opened

    def forget(self, node: str) -> None:
        """Forget a node that is gone; what it is closed to ends with its time."""
        self._last.pop(node, None)

    def __bool__(self) -> bool:
        """Tell whether any node is closed to any pod."""
        return bool(self._closed)

    def __len__(self) -> int:
        """Return how many nodes are closed to some pod."""
        return len({node for closed in self._closed.values() for node in closed})
