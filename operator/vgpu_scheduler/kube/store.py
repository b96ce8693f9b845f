"""Objects by key, of which only the newest version counts, whatever order observations come in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

_TOMBSTONES = 10_000
"""How many removed objects are remembered, besides those that are pinned."""
_FOREVER = 2**63
"""The version of a removal that no version follows: the key never comes back."""


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


class _End(NamedTuple):
    """What is remembered of a removed object: its UID never comes back, nor does any version up to this one."""

    uid: str | None
    version: int


class VersionedStore(Generic[_Key, _Value]):
    """The newest version of each object; a late observation of one that is gone or was made anew changes nothing.

    Parameters
    ----------
    pinned
        Tells of a removed key whether its end must be remembered whatever else is removed: a write about it is under
        way, whose answer must not raise the dead.

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
        """Take in an object; False if a newer one, or its end, is known."""
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
        """Take in that an object is gone, as of a version; False if another one stands in its place, or none.

        The end of a later namesake is remembered all the same, so that a late observation does not raise the namesake.
        """
        known = self._values.get(key)
        if known is not None and self._versions[key] > version:
            return False
        if uid or version:
            self._bury(key, _End(uid or None, version))
        return (known is None or known.uid == uid) and self._drop(key)

    def remove_forever(self, key: _Key) -> bool:
        """Take in that an object is gone whose key never comes back, as that of a UID; False if it was not there."""
        self._bury(key, _End(None, _FOREVER))
        return self._drop(key)

    def remove_up_to(self, key: _Key, version: int) -> bool:
        """Forget an object, which no observation up to a version brings back; False if it was not there."""
        self._bury(key, _End(None, version))
        return self._drop(key)

    def missing(self, listed: Collection[_Key], version: int) -> list[_Value]:
        """Return the objects that a consistent list of a version does not have although they are not newer than it."""
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
