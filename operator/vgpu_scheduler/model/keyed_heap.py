"""A heap of keys, each of which can be moved or deleted, as kube-scheduler's ``heap.Heap``."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Rank = TypeVar("_Rank")

_MOST_STALE: Final = 64
"""Number of stale items that are kept beyond one for each key."""


class Ranked(NamedTuple, Generic[_Key, _Rank]):
    """A key and its rank."""

    key: _Key
    rank: _Rank


class KeyedHeap(Generic[_Key, _Rank]):
    """Keys in the order of their ranks; keys of equal rank in the order in which they were added, or updated last.

    The rank of a key can be changed. The item with its former rank stays in the heap, and is skipped when it comes
    first, which is faster than to search for it.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[_Rank, int, _Key]] = []
        self._tickets: dict[_Key, int] = {}
        """The ticket of the current item of each key; items with other tickets are stale."""
        self._added = 0

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._tickets)

    def __len__(self) -> int:
        return len(self._tickets)

    def add_or_update(self, key: _Key, rank: _Rank) -> None:
        """Add a key, or change its rank."""
        self._added = self._tickets[key] = ticket = self._added + 1
        heappush(self._heap, (rank, ticket, key))
        if len(self._heap) > 2 * len(self._tickets) + _MOST_STALE:
            self._heap = [item for item in self._heap if self._tickets.get(item[2]) == item[1]]
            heapify(self._heap)

    def delete(self, key: _Key) -> bool:
        """Delete a key; return whether it was there."""
        return self._tickets.pop(key, None) is not None

    def peek(self) -> Ranked[_Key, _Rank] | None:
        """Return the first key; None if there is none."""
        heap, tickets = self._heap, self._tickets
        while heap:
            rank, ticket, key = heap[0]
            if tickets.get(key) == ticket:
                return Ranked(key, rank)
            heappop(heap)
        return None

    def pop(self) -> Ranked[_Key, _Rank] | None:
        """Take out the first key; None if there is none."""
        heap, tickets = self._heap, self._tickets
        while heap:
            rank, ticket, key = heappop(heap)
            if tickets.get(key) == ticket:
                del tickets[key]
                return Ranked(key, rank)
        return None

    def clear(self) -> None:
        """Delete all keys."""
        self._heap.clear()
        self._tickets.clear()
