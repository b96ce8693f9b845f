"""How objects are taken in: one by one as they change, and from consistent lists, which also show what is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.kube import ObjectIdentity, Versioned

_Value = TypeVar("_Value", bound=Versioned)


@dataclass(frozen=True, slots=True)
class ObservedKind(Generic[_Value]):
    """How the objects of one kind are observed, removed and compared with lists, as functions.

    Attributes
    ----------
    key
        Returns the key of an object.
    title
        ``namespace/name``, or the name of an object without a namespace.
    observe
        Takes in an object, at a time (seconds, monotonic); returns its problems.
    remove
        Notes that an object is gone as of a resource version, at a time.
    missing
        Returns the objects that are not among the keys of a consistent list, and are not newer than its version.
    forget_versions
        Accepts any resource version from now on.
    identify
        Returns the key of an object from its metadata.
    version
        Returns the resource version in which the object of a key is known, 0 if it is unknown; None for kinds without
        this information.
    seen_unchanged
        Notes that the object of a key is unchanged, at a time.
    """

    key: Callable[[_Value], Hashable]
    title: Callable[[_Value], str]
    observe: Callable[[_Value, float], tuple[Problem, ...]]
    remove: Callable[[_Value, int, float], None]
    missing: Callable[[Collection[Any], int], Iterable[_Value]]
    forget_versions: Callable[[], None]
    identify: Callable[[ObjectIdentity], str] = lambda identity: identity.uid
    version: Callable[[Any], int] | None = None
    seen_unchanged: Callable[[Any, float], None] = lambda _key, _now: None


class Relist(Generic[_Value]):
    """A consistent list of one kind that is taken in piece by piece; at its end it tells which objects are gone.

    Parameters
    ----------
    kind
        The kind.
    version
        The list's resource version.
    restored
        Whether the API server's store was restored from an older copy: then objects that are not listed are gone,
        however new their version.
    """

    def __init__(self, kind: ObservedKind[_Value], version: int, *, restored: bool) -> None:
        self._kind = kind
        self._version = version
        self._restored = restored
        self._listed: set[Hashable] = set()

    def take(self, found: _Value, now: float) -> tuple[Problem, ...]:
        """Take in an object of the list."""
        self._listed.add(self._kind.key(found))
        return self._kind.observe(found, now)

    def seen_unchanged(self, identity: ObjectIdentity, now: float) -> None:
        """Note that a listed object is unchanged."""
        key = self._kind.identify(identity)
        self._listed.add(key)
        self._kind.seen_unchanged(key, now)

    def note(self, identity: ObjectIdentity) -> None:
        """Note that an object is listed, without its content."""
        self._listed.add(self._kind.identify(identity))

    def missing(self, unreadable: Collection[str] = ()) -> list[_Value]:
        """Return the objects that are gone, once the whole list was taken in.

        Parameters
        ----------
        unreadable
            Titles of listed objects that could not be read: they are not gone. An empty title stands for any object.
        """
        if "" in unreadable:
            return []
        if self._restored:
            self._kind.forget_versions()  # old versions may have been taken in again while the list was read
        gone = self._kind.missing(self._listed, self._version)
        return [found for found in gone if self._kind.title(found) not in unreadable]

    def remove(self, found: _Value, now: float) -> tuple[Problem, ...]:
        """Remove an object that the list does not show; there are no problems to return."""
        self._kind.remove(found, self._version, now)
        return ()


class ConsistentLists:
    """Tracks the consistent lists that were taken in, to tell an overtaken list from a restored store.

    Parameters
    ----------
    kinds
        The kinds of objects, by name.
    store_restored
        Called when a list shows that the store was restored from an older copy.

    Attributes
    ----------
    epoch : int
        Number of times that the store was found to be restored.
    """

    def __init__(self, kinds: Mapping[str, ObservedKind[Any]], store_restored: Callable[[], None]) -> None:
        self.epoch = 0
        self._kinds = kinds
        self._store_restored = store_restored
        self._listed: dict[str, int] = {}

    def listed(self, kind: str) -> int:
        """Return the version of the last list of a kind; 0 if there was none."""
        return self._listed.get(kind, 0)

    def relist(self, kind: str, version: int | None, since: int | None = None) -> Relist[Any] | None:
        """Begin to take in a list of a kind; None if a newer list was taken in since this one was requested.

        Parameters
        ----------
        kind
            The name of the kind; one of ``kinds``.
        version
            The list's resource version; None where the API server does not serve the kind. A version below that of a
            list taken in before the request means that the store was restored from an older copy: then the list
            replaces what is known.
        since
            What ``listed`` returned when this list was requested. The default is its present value: no other list was
            taken in meanwhile.
        """
        listed = self.listed(kind)
        since = listed if since is None else since
        if since < listed and (version is None or since <= version < listed):
            return None
        if version is None:
            return Relist(self._kinds[kind], 0, restored=True)
        restored = version < since
        self._listed[kind] = version
        if restored:
            self.epoch += 1
            self._store_restored()
            self._kinds[kind].forget_versions()
        return Relist(self._kinds[kind], version, restored=restored)
