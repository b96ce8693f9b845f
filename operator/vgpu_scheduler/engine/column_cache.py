"""Which node parts keep what they know of all nodes: it is large, and costs a look at every node to make again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Protocol

__all__ = ["ColumnCache"]


class Droppable(Protocol):
    """What can forget what it knows."""

    def drop(self) -> None:
        """Forget what it knows."""


class ColumnCache:
    """Keeps the columns of as many node parts as there is memory for.

    Those used last stay. Of the older half one after the other goes, not always the oldest: where more take turns than
    there is room for, the oldest is the very next one that is needed, and each of them would be computed anew.

    Parameters
    ----------
    most
        Returns how many may be kept.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._parts: OrderedDict[Droppable, None] = OrderedDict()
        self._turn = 0

    def __contains__(self, part: object) -> bool:
        return part in self._parts

    def use(self, part: Droppable) -> None:
        """Note that a part is about to be used; others may have to go for it."""
        if part in self._parts:
            self._parts.move_to_end(part)
            return
        self._parts[part] = None
        while len(self._parts) > max(self._most(), 1):
            self._turn += 1
            older = max(len(self._parts) // 2, 1)
            victim = next(islice(self._parts, self._turn % older, None))
            self.discard(victim)

    def discard(self, part: Droppable) -> None:
        """Let a part forget what it knows."""
        if part in self._parts:
            del self._parts[part]
            part.drop()
