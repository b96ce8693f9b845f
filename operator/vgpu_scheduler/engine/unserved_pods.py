"""Turns at nodes that pods have lost, and block: they were never served, and the device plugin still waits for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpu_scheduler.dialects import NodeSide, UnservedPod
from vgpu_scheduler.kube import Pod

__all__ = ["UnservedPods"]


class UnservedPods:
    """Keeps which pods have lost which turns.

    Parameters
    ----------
    node_side
        Tells which turn a pod has lost.
    """

    def __init__(self, node_side: NodeSide) -> None:
        self._node_side = node_side
        self._lost: dict[str, UnservedPod] = {}
        self._pods: dict[str, dict[str, dict[str, None]]] = {}  # by turn and node, the UIDs in the order of their loss

    def observe(self, pod: Pod) -> bool:
        """Take in a pod as it is now; return whether a turn came free by that."""
        lost = self._node_side.unserved_pod(pod)
        if lost == self._lost.get(pod.uid):
            return False
        freed = self.forget(pod.uid)
        if lost is not None:
            self._lost[pod.uid] = lost
            self._pods.setdefault(lost.turn, {}).setdefault(lost.node, {})[pod.uid] = None
        return freed

    def forget(self, uid: str) -> bool:
        """Take in that a pod is gone; return whether a turn came free by that."""
        lost = self._lost.pop(uid, None)
        if lost is None:
            return False
        nodes = self._pods[lost.turn]
        del nodes[lost.node][uid]
        if nodes[lost.node]:
            return False
        del nodes[lost.node]
        if not nodes:
            del self._pods[lost.turn]
        return True

    def nodes(self, turn: str) -> Collection[str]:
        """Return the nodes at which a turn is blocked."""
        return self._pods.get(turn, _NOWHERE).keys()

    def pods(self, node: str, turn: str) -> Collection[str]:
        """Return the UIDs of the pods that block a turn at a node, the first one first."""
        return self._pods.get(turn, _NOWHERE).get(node, _NOBODY)

    def turns(self, node: str) -> Iterator[str]:
        """Return the turns that are blocked at a node."""
        return (turn for turn, nodes in self._pods.items() if node in nodes)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes at which any turn is blocked."""
        return iter({lost.node: None for lost in self._lost.values()})

    def __bool__(self) -> bool:
        """Tell whether any turn is blocked."""
        return bool(self._lost)


_NOBODY: dict[str, None] = {}
_NOWHERE: dict[str, dict[str, None]] = {}
