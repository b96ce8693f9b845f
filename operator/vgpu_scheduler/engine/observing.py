"""How the kinds of objects are taken in: one by one as they change, and by consistent lists that show what is gone."""

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
        What an object is known by.
    title
        ``namespace/name``, or the name of an object without a namespace.
    observe
        Takes in an object, at a time (seconds, monotonic); returns what of it cannot be understood.
    remove
        Takes in that an object is gone as of a resource version, at a time.
    missing
        Returns the objects that are not among the keys of a consistent list, and are not newer than its version.
    forget_versions
        Accepts any resource version from now on.
    identify
        Returns what an object is known by, of its metadata alone.
    version
        Returns the resource version in which the object of a key is known, 0 if it is not; None where that is not
        told of this kind.
    seen_unchanged
        Takes in that the object of a key is still there as it is known, at a time.
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


class Sweep(Generic[_Value]):
    """A consistent list of one kind that is taken in piece by piece: what it shows, and at its end what is gone.

    Parameters
    ----------
    kind
        The kind.
    version
        The list's resource version.
    restored
        The API server's store was restored from an older copy: what the list does not show is gone, however new.
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
        """Take in that an object is in the list as it is known."""
        key = self._kind.identify(identity)
        self._listed.add(key)
        self._kind.seen_unchanged(key, now)

    def note(self, identity: ObjectIdentity) -> None:
        """Take in that an object is in the list, whatever it says."""
        self._listed.add(self._kind.identify(identity))

    def missing(self, unreadable: Collection[str] = ()) -> list[_Value]:
        """Return the objects that are gone, once the whole list was taken in.

        Parameters
        ----------
        unreadable
            Titles of listed objects that could not be read: what is known of them stays. An empty one stands for any.
        """
        if "" in unreadable:
            return []
        if self._restored:
            self._kind.forget_versions()  # those of before, which came again since the list was begun
        gone = self._kind.missing(self._listed, self._version)
        return [found for found in gone if self._kind.title(found) not in unreadable]

    def remove(self, found: _Value, now: float) -> tuple[Problem, ...]:
        """Take in that an object is gone that the list does not show; there is nothing to understand."""
        self._kind.remove(found, self._version, now)
        return ()


class ConsistentLists:
    """Which consistent lists were taken in: one that a newer one has overtaken is told from a restored store.

    Parameters
    ----------
    kinds
        The kinds of objects, by name.
    store_restored
        Called when a list shows that the store was restored from an older copy.

    Attributes
    ----------
    epoch : int
        Counts how often the store was found to be restored.
    """

    def __init__(self, kinds: Mapping[str, ObservedKind[Any]], store_restored: Callable[[], None]) -> None:
        self.epoch = 0
        self._kinds = kinds
        self._store_restored = store_restored
        self._listed: dict[str, int] = {}

    def listed(self, kind: str) -> int:
        """Return the version of the list of a kind that was taken in last; 0 if none was."""
        return self._listed.get(kind, 0)

    def sweep(self, kind: str, version: int | None, since: int | None = None) -> Sweep[Any] | None:
        """Begin to take in a list of a kind; None if a newer one was taken in since this was asked for.

        Parameters
        ----------
        kind
            The name of the kind; one of ``kinds``.
        version
            The list's resource version; None where there is no such kind at all. One below that of a list that had
            been taken in before this one was asked for means that the store was restored from an older copy: what is
            known is then forgotten in favour of the list.
        since
            What ``listed`` returned when this list was asked for. The default is what it returns now: no other list was
            taken in meanwhile.
        """
        listed = self.listed(kind)
        since = listed if since is None else since
        if since < listed and (version is None or since <= version < listed):
            return None
        if version is None:
            return Sweep(self._kinds[kind], 0, restored=True)
        restored = version < since
        self._listed[kind] = version
        if restored:
            self.epoch += 1
            self._store_restored()
            self._kinds[kind].forget_versions()
        return Sweep(self._kinds[kind], version, restored=restored)
