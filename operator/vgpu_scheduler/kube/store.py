"""A store of objects by key that keeps the newest version of each, in whatever order observations arrive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

_TOMBSTONES = 10_000
"""Maximum number of tombstones, not counting pinned ones."""
_FOREVER = 2**63
"""The version of a final removal: no later version is accepted."""


class Versioned(Protocol):
    """An object of the API server."""

    @property
    def uid(self) -> str:
        """Its UID; empty for objects of files."""

    @property
    def resource_version(self) -> int:
        """Its version; 0 for objects of files. A recreated object of the same name has a higher version."""


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value", bound=Versioned)


def with_version(value: _Value, version: int) -> _Value:
    """Return an object with another resource version."""
    changed: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else replace
    found: _Value = changed(value, resource_version=version)
    return found


class _End(NamedTuple):
    """The tombstone of a removed object: observations of its UID, or of a version up to this one, are ignored."""

    uid: str | None
    version: int


class VersionedStore(Generic[_Key, _Value]):
    """The newest version of each object; late observations of removed or recreated objects are ignored.

    Parameters
    ----------
    pinned
        Tells whether the tombstone of a key must be kept because a write about it is in flight, whose late answer must
        not bring the object back.

    Attributes
    ----------
    get
        Returns an object by its key, or None.
    """

    def __init__(self, pinned: Callable[[_Key], bool] = lambda _: False) -> None:
        self._values: dict[_Key, _Value] = {}
        self.get: Callable[[_Key], _Value | None] = self._values.get
        self._versions: dict[_Key, int] = {}
        self._removed: OrderedDict[_Key, _End] = OrderedDict()
        self._pinned = pinned

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_Value]:
        return iter(self._values.values())

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: _Key) -> _Value:
        return self._values[key]

    def was_removed(self, key: _Key) -> bool:
        """Tell whether an object is known to be gone."""
        return key in self._removed

    def put(self, key: _Key, value: _Value) -> bool:
        """Take in an object; return False if a newer version or its removal is known."""
        version = value.resource_version
        if version < self._versions.get(key, 0):
            return False
        end = self._removed.get(key)
        if end is not None and (end.version == _FOREVER or value.uid == end.uid or 0 < version <= end.version):
            return False
        self._removed.pop(key, None)
        self._values[key] = value
        self._versions[key] = version
        return True

    def remove(self, key: _Key, uid: str, version: int) -> bool:
        """Take in that an object is gone as of a version; return False if the store has a newer one, or none.

        A tombstone is kept in any case, except for objects older than the known one, so that late observations are
        ignored.
        """
        known = self._values.get(key)
        if known is not None and self._versions[key] > version:
            return False
        if uid or version:
            self._bury(key, _End(uid or None, version))
        return (known is None or known.uid == uid) and self._drop(key)

    def remove_forever(self, key: _Key) -> bool:
        """Remove an object whose key (a UID) is never reused; return False if it was not there."""
        self._bury(key, _End(None, _FOREVER))
        return self._drop(key)

    def remove_up_to(self, key: _Key, version: int) -> bool:
        """Remove an object and ignore observations up to a version; return False if it was not there."""
        self._bury(key, _End(None, version))
        return self._drop(key)

    def missing(self, listed: Collection[_Key], version: int) -> list[_Value]:
        """Return the objects missing from a consistent list of a version that are not newer than the list."""
        return [self._values[key] for key, known in self._versions.items() if key not in listed and known <= version]

    def forget_versions(self) -> None:
        """Accept any version from now on: the API server's store was restored from an older copy."""
        self._versions = dict.fromkeys(self._versions, 0)
        self._removed.clear()

    def version(self, key: _Key) -> int:
        """Return the version up to which an object is known; 0 if any would be accepted."""
        return self._versions.get(key, 0)

    def _drop(self, key: _Key) -> bool:
        self._versions.pop(key, None)
        return self._values.pop(key, None) is not None

    def _bury(self, key: _Key, end: _End) -> None:
        known = self._removed.get(key)
        if known is None or known.version <= end.version:
            self._removed[key] = end
        self._removed.move_to_end(key)
        while len(self._removed) > _TOMBSTONES:
            oldest = next((other for other in self._removed if not self._pinned(other)), None)
            if oldest is None:
                break
            del self._removed[oldest]
