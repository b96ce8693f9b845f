"""Objects by key, of which only the newest counts, whatever order they are shown in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

_TOMBSTONES = 10_000
"""How many removed objects are remembered."""


class Versioned(Protocol):
    """An object of the API server."""

    @property
    def uid(self) -> str:
        """Its UID; empty for objects of files."""

    @property
    def resource_version(self) -> int:
        """Its version; 0 for objects of files. Versions are the store's: those of a namesake made anew are higher."""


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value", bound=Versioned)


class Shelf(Generic[_Key, _Value]):
    """The newest version of each object; a late observation of one that is gone or was made anew changes nothing."""

    def __init__(self) -> None:
        self._values: dict[_Key, _Value] = {}
        self._removed: OrderedDict[_Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_Value]:
        return iter(self._values.values())

    def get(self, key: _Key) -> _Value | None:
        """Return an object, or None."""
        return self._values.get(key)

    def put(self, key: _Key, value: _Value) -> bool:
        """Take in an object; False if a newer one, or its end, is known."""
        known, version = self._values.get(key), value.resource_version
        if known is not None and version < known.resource_version:
            return False
        if version and version <= self._removed.get(key, -1):
            return False
        self._removed.pop(key, None)
        self._values[key] = value
        return True

    def remove(self, key: _Key, uid: str, version: int) -> bool:
        """Take in that an object is gone, as of a version; False if another one stands in its place, or none."""
        known = self._values.get(key)
        if known is not None and (known.uid != uid or known.resource_version > version):
            return False
        if version:
            self._removed[key] = version
            self._removed.move_to_end(key)
            if len(self._removed) > _TOMBSTONES:
                self._removed.popitem(last=False)
        return self._values.pop(key, None) is not None
