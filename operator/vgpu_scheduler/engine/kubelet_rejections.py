"""Nodes that are closed to pods like one that their kubelet has just rejected.

A kubelet knows more than the API server shows (pods of other schedulers bound at the same moment, NUMA topology, a
failing device plugin), and the pod that replaces the rejected one would otherwise be placed on the same node again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Mapping

from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import EventReason

KUBELET_REJECTION_WAIT = 60.0
"""Default time for which a node is closed (seconds)."""
_REPEATS = 600.0
"""A second rejection within this time (seconds) is reported as a problem of the node."""


def replaced_with(pod: Pod) -> Hashable:
    """Return what a pod shares with its replacements: its controller, else its namespace and spec."""
    return pod.owner or (pod.namespace, pod.spec.fingerprint)


class KubeletRejections:
    """Tracks which nodes are closed to which pods because they rejected a similar pod.

    Parameters
    ----------
    wait
        Time for which a node is closed (seconds).
    """

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._closed: dict[Hashable, dict[str, float]] = {}
        self._order: deque[tuple[float, Hashable, str]] = deque()
        self._last: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        """Number of rejected pods by the kubelet's reason."""

    def observe(self, before: Pod | None, pod: Pod, node: Node | None, now: float) -> tuple[Problem, ...]:
        """Take in a pod of ours; return what to report if its kubelet has rejected it since the last observation.

        Parameters
        ----------
        before
            The last observation; None for a new pod, whose rejection is ignored, as it may have happened long ago.
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
        """Return the nodes that are closed to a pod."""
        closed = self._closed.get(replaced_with(pod)) if self._closed else None
        return () if closed is None else closed.keys()

    def expire(self, now: float) -> bool:
        """Open the nodes whose time is over; return whether there were any."""
        opened = False
        while self._order and self._order[0][0] <= now:
            until, key, node = self._order.popleft()
            closed: Mapping[str, float] = self._closed.get(key, {})
            if closed.get(node) == until:  # else it has rejected a similar pod again
                opened = True
                del self._closed[key][node]
                if not self._closed[key]:
                    del self._closed[key]
        return opened

    def forget(self, node: str) -> None:
        """Forget a node that is gone; its closures still end at their times."""
        self._last.pop(node, None)

    def __bool__(self) -> bool:
        """Tell whether any node is closed to any pod."""
        return bool(self._closed)

    def __len__(self) -> int:
        """Return how many nodes are closed to some pod."""
        return len({node for closed in self._closed.values() for node in closed})
