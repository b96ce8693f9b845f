"""Pods that left a selection of unbound pods: they were bound or are gone, and which of both is not known yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

__all__ = ["Departure", "Departures"]


_MOST_LEFTOVERS: Final = 64
"""Entries of departures that were settled otherwise, besides as many as there are departures."""


class Departure(NamedTuple):
    """A pod that left a selection.

    Attributes
    ----------
    version
        The resource version as of which it left.
    since
        When that was taken in (seconds, monotonic).
    """

    version: int
    since: float


class Departures:
    """The departures of which no stream has told yet what became of the pod.

    A stream of the bound pods settles each: it shows the pod, or it shows something of a later version, and so would
    have shown the pod before.
    """

    def __init__(self) -> None:
        self._left: dict[str, Departure] = {}
        self._by_version: list[tuple[int, str]] = []
        """A heap; entries whose departure was settled, or overtaken by a later one, are leftovers."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._left

    def __len__(self) -> int:
        return len(self._left)

    def note(self, uid: str, version: int, now: float) -> None:
        """Take in that a pod left a selection, as of a resource version; an earlier departure is overtaken."""
        if version > self.version(uid):
            self._left[uid] = Departure(version, now)
            heappush(self._by_version, (version, uid))
            if len(self._by_version) > _MOST_LEFTOVERS + 2 * len(self._left):
                self._by_version = sorted((departure.version, uid) for uid, departure in self._left.items())

    def version(self, uid: str) -> int:
        """Return the resource version as of which a pod left; 0 if it did not, or what became of it is known."""
        departure = self._left.get(uid)
        return departure.version if departure else 0

    def settle(self, uid: str) -> None:
        """Forget a departure: what became of the pod is known."""
        self._left.pop(uid, None)

    def settle_up_to(self, version: int, but_for: Callable[[str], bool]) -> list[tuple[str, int]]:
        """Forget the departures up to a resource version; return which pods these were, and as of which version.

        Those that ``but_for`` holds for stay: what became of such a pod was shown, perhaps, and could not be read.
        """
        settled = []
        while self._by_version and self._by_version[0][0] <= version:
            left, uid = heappop(self._by_version)
            if self.version(uid) == left and not but_for(uid):
                del self._left[uid]
                settled.append((uid, left))
        return settled

    def older_than(self, moment: float, about: Callable[[str], bool]) -> Iterator[str]:
        """Yield the pods that left before a moment, of those that a condition holds for."""
        return (uid for uid, departure in self._left.items() if departure.since <= moment and about(uid))

    def clear(self) -> None:
        """Forget all of them: versions are given out anew."""
        self._left.clear()
        self._by_version.clear()
