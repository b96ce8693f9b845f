"""The queue of binds at one node."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from vgpu_scheduler.binding.bind_tasks import BindGroup, BindTask, Rank


class Lane:
    """The pods that wait at one node.

    Attributes
    ----------
    current
        The pod whose turn it is; None if there is none.
    since
        When the current turn began, or an earlier one whose pod moved to another node during it.
    looked_at
        When the waiting pods were last tried on other nodes.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, BindTask]] = []
        self._committed: deque[BindTask] = deque()
        self.current: BindTask | None = None
        self.since = self.looked_at = 0.0
        self._went_elsewhere = False

    def __len__(self) -> int:
        return len(self._heap) + len(self._committed)

    def push(self, item: BindTask) -> None:
        """Add a pod."""
        heapq.heappush(self._heap, (item.rank, item))

    @property
    def head(self) -> BindTask:
        """The pod whose turn is next."""
        return self._committed[0] if self._committed else self._heap[0][1]

    def in_order(self) -> list[BindTask]:
        """Return all pods that wait, in the order of their turns."""
        return [*self._committed, *(item for _, item in sorted(self._heap, key=lambda entry: entry[0]))]

    def pop(self) -> BindTask:
        """Take the next pod."""
        return self._committed.popleft() if self._committed else heapq.heappop(self._heap)[1]

    def begin(self, now: float) -> BindTask:
        """Take the next pod, whose turn it is now."""
        if not self._went_elsewhere:
            self.since = now
        self.current, self._went_elsewhere = self.pop(), False
        return self.current

    def leave(self, item: BindTask) -> None:
        """Remove a pod that moves to another node; if it is its turn, the next turn continues its wait."""
        self._went_elsewhere |= item is self.current
        self.remove([item])

    def commit(self, group: BindGroup) -> None:
        """Put the pods of a group before all uncommitted pods, one right after the other."""
        mine = sorted((item for _, item in self._heap if item.group is group), key=lambda item: item.rank)
        self.remove(mine)
        self._committed.extend(mine)

    def remove(self, items: Iterable[BindTask]) -> None:
        """Remove pods from the lane."""
        gone = set(map(id, items))
        self._heap = [entry for entry in self._heap if id(entry[1]) not in gone]
        heapq.heapify(self._heap)
        self._committed = deque(item for item in self._committed if id(item) not in gone)

    def expired(self, before: float) -> list[BindTask]:
        """Return the uncommitted pods that were decided before a time."""
        return [item for _, item in self._heap if item.decided_at < before]

    def all(self) -> list[BindTask]:
        """Return all pods that wait."""
        return [*self._committed, *(item for _, item in self._heap)]
