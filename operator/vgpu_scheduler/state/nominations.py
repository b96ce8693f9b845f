"""Waiting pods that a preemption made room for, by the node where it did."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Hint

__all__ = ["Nominations"]

_FREED = Hint.RESOURCES | Hint.AFFINITY | Hint.DEVICE_FREED


class Nominations:
    """The pods that are not bound and name a node in ``status.nominatedNodeName``."""

    __slots__ = ("_node_of", "_on_node")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._node_of

    def __iter__(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the nodes by name, each with the UIDs of the pods that are nominated to it."""
        return ((node, frozenset(uids)) for node, uids in sorted(self._on_node.items()))

    def on(self, node: str) -> frozenset[str]:
        """Return the UIDs of the pods that are nominated to a node."""
        return frozenset(self._on_node.get(node, ()))

    def observe(self, pod: Pod) -> Hint:
        """Take in a pod; return what it may help that it is no longer nominated where it was."""
        node = "" if pod.node_name or pod.terminal else pod.nominated_node_name
        if node == self._node_of.get(pod.uid, ""):
            return Hint.NONE
        hint = self.remove(pod.uid)
        if node:
            self._node_of[pod.uid] = node
            self._on_node.setdefault(node, set()).add(pod.uid)
        return hint

    def remove(self, uid: str) -> Hint:
        """Take in that a pod is gone; return what that may help."""
        node = self._node_of.pop(uid, "")
        if not node:
            return Hint.NONE
        self._on_node[node].discard(uid)
        if not self._on_node[node]:
            del self._on_node[node]
        return _FREED

    def copy(self) -> Nominations:
        """Return an independent copy."""
        twin = Nominations()
        twin._node_of = dict(self._node_of)
        twin._on_node = {node: set(uids) for node, uids in self._on_node.items()}
        return twin
