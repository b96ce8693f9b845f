"""What is remembered beyond the life of its object: the values used last, within so many bytes.

Users who may create objects decide what they say, and how many come and go. So no count bounds what is kept of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from sys import getsizeof
from types import NoneType
from typing import Final, Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

ENTRY: Final = 300
"""Bytes that an entry takes beside its key and its value."""
_HEAVY: Final = 64
"""What takes more than this part of the room is heavy."""
_MOST_HEAVY: Final = 2
"""As many heavy values one decision may need at a time: those of a pod, and those of all that are like it."""
_PLAIN: Final = (str, int, bytes, float, NoneType)
_COLLECTIONS: Final = (tuple, list, frozenset, set)


class BoundedCache(Generic[_Key, _Value]):
    """Values by key, the most recently used ones, bounded by bytes.

    A value that takes more than a 64th of the room is heavy. It has no part in that room, lest a few such push out all
    others: the two newest of them are kept besides.

    Parameters
    ----------
    most_bytes
        What all but the heavy ones may take together, as their weights say; the newest one is kept, whatever it weighs.
    forgotten
        Told of each value that others push out.
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
        """About what is remembered takes, but for the heavy ones."""

    def __len__(self) -> int:
        return len(self._entries) + len(self._heavy)

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key, which is the most recently used one then; None if it is not remembered."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry[0]
        if key not in self._heavy:
            return None
        self._heavy.move_to_end(key)
        return self._heavy[key]

    def put(self, key: _Key, value: _Value, weight: int) -> None:
        """Remember a value, or another one in its place.

        Parameters
        ----------
        weight
            The bytes that key and value keep in memory, with what follows from the value elsewhere.
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
        """Forget the value of a key; return it, None if it was not remembered."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return self._heavy.pop(key, None)
        value, weight = entry
        self.bytes -= weight
        return value

    def items(self) -> Iterator[tuple[_Key, _Value]]:
        """Yield all keys and values, that which was not used for longest first; the heavy ones come last."""
        yield from ((key, value) for key, (value, _) in self._entries.items())
        yield from self._heavy.items()

    def clear(self) -> None:
        """Forget everything, and tell nobody."""
        self._entries.clear()
        self._heavy.clear()
        self.bytes = 0

    def _forget(self, value: _Value) -> None:
        if self._forgotten is not None:
            self._forgotten(value)


def bytes_of(value: object) -> int:
    """Return about how many bytes a value takes that is made of texts, numbers, collections and records of them."""
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
