"""Pods whose final state is unknown: they left a selection of unbound pods, and were bound or are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

__all__ = ["UnknownFinalStates"]


_MOST_LEFTOVERS: Final = 64
"""Entries of pods that were resolved otherwise, besides as many as there are pods."""


class FinalStateUnknown(NamedTuple):
    """A pod that left a selection, as client-go has it: deleted there, final state unknown.

    Attributes
    ----------
    version
        The resource version as of which it left.
    since
        When that was taken in (seconds, monotonic).
    """

    version: int
    since: float


class UnknownFinalStates:
    """The pods that left a selection, of which no stream has told yet what they became.

    A stream of the bound pods resolves each: it shows the pod, or it shows something of a later version, and so would
    have shown the pod before.
    """

    def __init__(self) -> None:
        self._left: dict[str, FinalStateUnknown] = {}
        self._by_version: list[tuple[int, str]] = []
        """A heap; entries of pods that were resolved, or left again later, are leftovers."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._left

    def __len__(self) -> int:
        return len(self._left)

    def note(self, uid: str, version: int, now: float) -> None:
        """Take in that a pod left a selection, as of a resource version; the last time counts."""
        if version > self.version(uid):
            self._left[uid] = FinalStateUnknown(version, now)
            heappush(self._by_version, (version, uid))
            if len(self._by_version) > _MOST_LEFTOVERS + 2 * len(self._left):
                self._by_version = sorted((left.version, uid) for uid, left in self._left.items())

    def version(self, uid: str) -> int:
        """Return the resource version as of which a pod left; 0 if it did not, or what became of it is known."""
        left = self._left.get(uid)
        return left.version if left else 0

    def resolve(self, uid: str) -> None:
        """Forget a pod: what became of it is known."""
        self._left.pop(uid, None)

    def resolve_up_to(self, version: int, but_for: Callable[[str], bool]) -> list[tuple[str, int]]:
        """Forget the pods that left up to a resource version; return them, and as of which version each left.

        Those that ``but_for`` holds for stay: what became of such a pod was shown, perhaps, and could not be read.
        """
        resolved = []
        while self._by_version and self._by_version[0][0] <= version:
            left, uid = heappop(self._by_version)
            if self.version(uid) == left and not but_for(uid):
                del self._left[uid]
                resolved.append((uid, left))
        return resolved

    def older_than(self, moment: float, about: Callable[[str], bool]) -> Iterator[str]:
        """Yield the pods that left before a moment, of those that a condition holds for."""
        return (uid for uid, left in self._left.items() if left.since <= moment and about(uid))

    def clear(self) -> None:
        """Forget all of them: versions are given out anew."""
        self._left.clear()
        self._by_version.clear()
