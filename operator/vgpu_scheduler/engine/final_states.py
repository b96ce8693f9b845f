"""Pods whose final state is unknown: they left a selection of unbound pods, so they were bound or are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from vgpu_scheduler.model import KeyedHeap


class FinalStateUnknown(NamedTuple):
    """A pod that left a selection; like client-go's DeletedFinalStateUnknown.

    Attributes
    ----------
    version
        The resource version as of which it left.
    since
        When that was observed (seconds, monotonic).
    """

    version: int
    since: float


class UnknownFinalStates:
    """The pods that left a selection and whose final state no stream has shown yet.

    The stream of bound pods resolves each: it shows the pod, or it shows an object of a later version, and so would
    have shown the pod before.
    """

    def __init__(self) -> None:
        self._left: dict[str, FinalStateUnknown] = {}
        self._by_version: KeyedHeap[str, int] = KeyedHeap()

    def __contains__(self, uid: object) -> bool:
        return uid in self._left

    def __len__(self) -> int:
        return len(self._left)

    def note(self, uid: str, version: int, now: float) -> None:
        """Note that a pod left a selection, as of a resource version; the latest version counts."""
        if version > self.version(uid):
            self._left[uid] = FinalStateUnknown(version, now)
            self._by_version.add_or_update(uid, version)

    def version(self, uid: str) -> int:
        """Return the resource version as of which a pod left; 0 if it did not, or its final state is known."""
        left = self._left.get(uid)
        return left.version if left else 0

    def resolve(self, uid: str) -> None:
        """Forget a pod whose final state is known."""
        self._left.pop(uid, None)
        self._by_version.delete(uid)

    def resolve_up_to(self, version: int, but_for: Callable[[str], bool]) -> list[tuple[str, int]]:
        """Forget the pods that left up to a resource version; return them, each with the version as of which it left.

        Pods for which ``but_for`` returns true stay: they may have been shown, but could not be read.
        """
        passed = []
        while (first := self._by_version.peek()) is not None and first.rank <= version:
            passed.append(first)
            self._by_version.delete(first.key)
        resolved = []
        for uid, left in passed:
            if but_for(uid):
                self._by_version.add_or_update(uid, left)
            else:
                del self._left[uid]
                resolved.append((uid, left))
        return resolved

    def older_than(self, moment: float, is_meant: Callable[[str], bool]) -> Iterator[str]:
        """Yield the pods that left before a moment and for which ``is_meant`` returns true."""
        return (uid for uid, left in self._left.items() if left.since <= moment and is_meant(uid))

    def clear(self) -> None:
        """Forget all pods: the API server's versions start anew."""
        self._left.clear()
        self._by_version.clear()
