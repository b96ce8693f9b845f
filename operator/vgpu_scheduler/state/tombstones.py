"""What is remembered of objects that are gone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

__all__ = ["Tombstones"]


class Tombstones:
    """The UIDs of removed objects, so that a late answer does not raise the dead.

    Parameters
    ----------
    limit
        How many are remembered; the oldest go first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, uid: str, kept: Container[str] = ()) -> None:
        """Remember that an object is gone; those in ``kept`` are never forgotten for it."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        while len(self._uids) > self._limit:
            oldest = next((candidate for candidate in self._uids if candidate not in kept), None)
            if oldest is None:
                break
            del self._uids[oldest]

    def clear(self) -> None:
        """Forget all."""
        self._uids.clear()

    def copy(self) -> Tombstones:
        """Return an independent copy."""
        twin = Tombstones(self._limit)
        twin._uids = self._uids.copy()
        return twin
