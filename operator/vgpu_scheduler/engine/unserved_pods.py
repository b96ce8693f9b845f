"""Pods that ended before their device plugin served them, and the nodes where they block pods with the same key."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpu_scheduler.dialects import NodeSide, UnservedPod
from vgpu_scheduler.kube import Pod


class UnservedPods:
    """Tracks, by plugin key and node, the pods that ended before their device plugin served them.

    The plugin would mistake such a pod for the next pod with the same key.

    Parameters
    ----------
    node_side
        Tells where a pod ended unserved, and the key by which its device plugin identifies it.
    """

    def __init__(self, node_side: NodeSide) -> None:
        self._node_side = node_side
        self._lost: dict[str, UnservedPod] = {}
        self._pods: dict[
            str, dict[str, dict[str, None]]
        ] = {}  # by plugin key and node, the UIDs in the order of their loss

    def observe(self, pod: Pod) -> bool:
        """Take in a pod; return whether a plugin key is no longer blocked on a node."""
        lost = self._node_side.unserved_pod(pod)
        if lost == self._lost.get(pod.uid):
            return False
        freed = self.forget(pod.uid)
        if lost is not None:
            self._lost[pod.uid] = lost
            self._pods.setdefault(lost.plugin_key, {}).setdefault(lost.node, {})[pod.uid] = None
        return freed

    def forget(self, uid: str) -> bool:
        """Note that a pod is gone; return whether a plugin key is no longer blocked on a node."""
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
        """Return the nodes on which a plugin key is blocked."""
        return self._pods.get(plugin_key, _NOWHERE).keys()

    def pods(self, node: str, plugin_key: str) -> Collection[str]:
        """Return the UIDs of the pods that block a plugin key on a node, in the order of their loss."""
        return self._pods.get(plugin_key, _NOWHERE).get(node, _NOBODY)

    def plugin_keys(self, node: str) -> Iterator[str]:
        """Yield the plugin keys that are blocked on a node."""
        return (plugin_key for plugin_key, nodes in self._pods.items() if node in nodes)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the nodes on which any plugin key is blocked."""
        return iter({lost.node: None for lost in self._lost.values()})

    def __bool__(self) -> bool:
        """Tell whether any plugin key is blocked."""
        return bool(self._lost)


_NOBODY: dict[str, None] = {}
_NOWHERE: dict[str, dict[str, None]] = {}
