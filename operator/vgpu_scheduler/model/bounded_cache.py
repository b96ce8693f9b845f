"""A least-recently-used cache that is bounded by bytes.

Users decide how many objects they create and how large these are, so a bound on the number of entries is not enough.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from sys import getsizeof
from types import NoneType
from typing import Final, Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

ENTRY: Final = 300
"""Bytes that an entry takes in addition to its key and its value."""
_HEAVY: Final = 64
"""Values larger than this fraction of the capacity are heavy."""
_MOST_HEAVY: Final = 2
"""The number of heavy values kept: one decision may need two, that of a pod and that of its equivalence class."""
_PLAIN: Final = (str, int, bytes, float, NoneType)
_COLLECTIONS: Final = (tuple, list, frozenset, set)


class BoundedCache(Generic[_Key, _Value]):
    """A cache of the most recently used values by key, bounded by bytes.

    A value that takes more than a 64th of the capacity is heavy. The two newest heavy values are kept outside the
    capacity, so that they do not evict all others.

    Parameters
    ----------
    most_bytes
        The total weight of all values that are not heavy; the newest one is kept even if it exceeds it.
    forgotten
        Called with each evicted value.
    """

    __slots__ = ("_entries", "_forgotten", "_heavy", "_most_bytes", "bytes")

    def __init__(
        self,
        most_bytes: int,
        *,
        forgotten: Callable[[_Value], None] | None = None,
    ) -> None:
        self._most_bytes = most_bytes
        self._forgotten = forgotten
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._heavy: OrderedDict[_Key, _Value] = OrderedDict()
        self.bytes = 0
        """Estimated size of all values that are not heavy."""

    def __len__(self) -> int:
        return len(self._entries) + len(self._heavy)

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key and mark it as most recently used; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry[0]
        if key not in self._heavy:
            return None
        self._heavy.move_to_end(key)
        return self._heavy[key]

    def put(self, key: _Key, value: _Value, weight: int) -> None:
        """Add or replace a value.

        Parameters
        ----------
        weight
            The bytes that key and value take, including data elsewhere that depends on the value.
        """
        self.pop(key)
        weight += ENTRY
        if weight > max(self._most_bytes // _HEAVY, ENTRY):
            self._heavy[key] = value
            if len(self._heavy) > _MOST_HEAVY:
                self._forget(self._heavy.popitem(last=False)[1])
            return
        self._entries[key] = value, weight
        self.bytes += weight
        while len(self._entries) > 1 and self.bytes > self._most_bytes:
            _, (oldest, weight) = self._entries.popitem(last=False)
            self.bytes -= weight
            self._forget(oldest)

    def pop(self, key: _Key) -> _Value | None:
        """Remove the value of a key; return it, None if it was not cached."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return self._heavy.pop(key, None)
        value, weight = entry
        self.bytes -= weight
        return value

    def items(self) -> Iterator[tuple[_Key, _Value]]:
        """Return all keys and values, the least recently used first; the heavy ones come last."""
        values = map(itemgetter(0), self._entries.values())
        return chain(zip(self._entries, values, strict=True), self._heavy.items())

    def clear(self) -> None:
        """Remove everything without calling ``forgotten``."""
        self._entries.clear()
        self._heavy.clear()
        self.bytes = 0

    def _forget(self, value: _Value) -> None:
        if self._forgotten is not None:
            self._forgotten(value)


def bytes_of(value: object) -> int:
    """Return the approximate size in bytes of a value made of texts, numbers, collections and records."""
    size = getsizeof(value)
    if isinstance(value, _PLAIN):
        return size
    if isinstance(value, _COLLECTIONS):
        return size + sum(map(bytes_of, value))
    if isinstance(value, Mapping):
        return size + sum(bytes_of(part) for entry in value.items() for part in entry)
    kind = type(value)
    fields: Iterable[str] = getattr(kind, "__struct_fields__", getattr(kind, "__dataclass_fields__", ()))
    return size + sum(bytes_of(getattr(value, name)) for name in fields)
