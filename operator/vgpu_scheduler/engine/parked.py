"""Pods that wait for a change, in classes of those that would get the same answer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from vgpu_scheduler.model import Hint

__all__ = ["ParkedClass", "ParkedPods", "Rank"]


class Rank(NamedTuple):
    """When a pod's turn comes: the highest priority first, then who came first."""

    urgency: int
    came: float
    uid: str


class ParkedClass(NamedTuple):
    """What the pods of a class have in common.

    Attributes
    ----------
    equivalence
        Pods with an equal value get the same answer.
    waits_for
        What could help them.
    per_node
        Whether each node rejects them for what it is by itself, so that only changed nodes need to be looked at.
    """

    equivalence: Hashable
    waits_for: Hint
    per_node: bool = False


class ParkedPods:
    """The classes. Their first pod is tried for all: only when it was placed is the next one's turn.

    Parameters
    ----------
    dissolved
        Told of each class of which the last pod has gone.
    """

    def __init__(self, dissolved: Callable[[ParkedClass], None]) -> None:
        self._dissolved = dissolved
        self._classes: dict[tuple[Hint, bool], dict[Hashable, list[Rank]]] = {}

    def __contains__(self, key: ParkedClass) -> bool:
        return key.equivalence in self._classes.get(key[1:], {})

    def add(self, key: ParkedClass, rank: Rank) -> None:
        """Take in a pod."""
        insort(self._classes.setdefault(key[1:], {}).setdefault(key.equivalence, []), rank)

    def discard(self, key: ParkedClass, rank: Rank) -> None:
        """Take out a pod."""
        classes = self._classes[key[1:]]
        ranks = classes[key.equivalence]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del classes[key.equivalence]
            if not classes:
                del self._classes[key[1:]]
            self._dissolved(key)

    def waiting_for(self, hints: Hint) -> list[ParkedClass]:
        """Return the classes that one of some hints could help, whichever node it is about."""
        return [
            ParkedClass(equivalence, waits_for)
            for (waits_for, per_node), classes in self._classes.items()
            if waits_for & hints and not per_node
            for equivalence in classes
        ]

    def all(self) -> list[ParkedClass]:
        """Return all classes."""
        return [ParkedClass(equivalence, *kind) for kind, classes in self._classes.items() for equivalence in classes]

    def any_for(self, hints: Hint) -> bool:
        """Tell whether one of some hints could help any class."""
        return any(waits_for & hints for waits_for, _ in self._classes)

    def equivalence(self, equivalence: Hashable) -> list[ParkedClass]:
        """Return the classes whose pods get the same answer, whatever they wait for."""
        return [ParkedClass(equivalence, *kind) for kind, classes in self._classes.items() if equivalence in classes]

    def uids(self, key: ParkedClass) -> Iterator[str]:
        """Yield the pods of a class in their order."""
        return (rank.uid for rank in self._classes[key[1:]][key.equivalence])

    def next(self, key: ParkedClass, ready_at: Callable[[str], float], now: float) -> str:
        """Return the first pod of a class whose back-off is over; if there is none, the one whose back-off ends first.

        Parameters
        ----------
        ready_at
            Returns when the back-off of a pod ends.
        """
        earliest, found = float("inf"), ""
        for uid in self.uids(key):
            ready = ready_at(uid)
            if ready <= now:
                return uid
            if ready < earliest:
                earliest, found = ready, uid
        return found
