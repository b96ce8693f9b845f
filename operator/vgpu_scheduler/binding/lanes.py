"""Queues at the nodes: binds that share a node's lock go one after the other.

The device plugin finds "its" pod through the node lock, so a node allocates to one pod at a time. A bind waits in the
lane of its node, ordered by priority and then age, and holds the lane until the node side has answered.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Placement


@dataclass(order=True, slots=True)
class Item:
    """A decided pod that waits to be bound."""

    rank: tuple[int, float, int]
    """Negative priority, the time it joined, a serial number."""
    uid: str = field(compare=False)
    decision: Decision = field(compare=False)
    joined: float = field(compare=False)
    came: float = field(compare=False, default=0.0)
    """When the pod was first seen waiting."""
    attempts: int = field(compare=False, default=0)
    sent: tuple[Pod, Placement, str] | None = field(compare=False, default=None)
    """Pod, placement and lock of a Binding on its way; what became of it must be found out."""


class Lane:
    """The pods that wait at one node."""

    def __init__(self) -> None:
        self._heap: list[Item] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, item: Item) -> None:
        """Add a pod."""
        heapq.heappush(self._heap, item)

    def pop(self) -> Item:
        """Take the next pod."""
        return heapq.heappop(self._heap)

    def expired(self, before: float) -> list[Item]:
        """Take out the pods that joined before a time."""
        old = [item for item in self._heap if item.joined < before]
        if old:
            self._heap = [item for item in self._heap if item.joined >= before]
            heapq.heapify(self._heap)
        return old
