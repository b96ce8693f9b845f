"""Pods that wait for a change, in groups of those that would get the same answer."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from vgpu_scheduler.model import Hint

__all__ = ["GroupKey", "ParkedPods", "Rank"]


class Rank(NamedTuple):
    """When a pod's turn comes: the highest priority first, then who came first."""

    urgency: int
    came: float
    uid: str


class GroupKey(NamedTuple):
    """What the pods of a group have in common.

    Attributes
    ----------
    alike
        Pods with an equal value get the same answer.
    waits_for
        What could help them.
    per_node
        Whether each node rejects them for what it is by itself, so that only changed nodes need to be looked at.
    """

    alike: Hashable
    waits_for: Hint
    per_node: bool = False


class ParkedPods:
    """The groups. Their first pod is tried for all: only when it was placed is the next one's turn.

    Parameters
    ----------
    dissolved
        Told of each group of which the last pod has gone.
    """

    def __init__(self, dissolved: Callable[[GroupKey], None]) -> None:
        self._dissolved = dissolved
        self._groups: dict[tuple[Hint, bool], dict[Hashable, list[Rank]]] = {}

    def __contains__(self, key: GroupKey) -> bool:
        return key.alike in self._groups.get(key[1:], {})

    def add(self, key: GroupKey, rank: Rank) -> None:
        """Take in a pod."""
        insort(self._groups.setdefault(key[1:], {}).setdefault(key.alike, []), rank)

    def discard(self, key: GroupKey, rank: Rank) -> None:
        """Take out a pod."""
        groups = self._groups[key[1:]]
        ranks = groups[key.alike]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del groups[key.alike]
            if not groups:
                del self._groups[key[1:]]
            self._dissolved(key)

    def waiting_for(self, hints: Hint) -> list[GroupKey]:
        """Return the groups that one of some hints could help, whichever node it is about."""
        return [
            GroupKey(alike, waits_for)
            for (waits_for, per_node), groups in self._groups.items()
            if waits_for & hints and not per_node
            for alike in groups
        ]

    def all(self) -> list[GroupKey]:
        """Return all groups."""
        return [GroupKey(alike, *kind) for kind, groups in self._groups.items() for alike in groups]

    def any_for(self, hints: Hint) -> bool:
        """Tell whether one of some hints could help any group."""
        return any(waits_for & hints for waits_for, _ in self._groups)

    def alike(self, alike: Hashable) -> list[GroupKey]:
        """Return the groups whose pods get the same answer, whatever they wait for."""
        return [GroupKey(alike, *kind) for kind, groups in self._groups.items() if alike in groups]

    def uids(self, key: GroupKey) -> Iterator[str]:
        """Yield the pods of a group in their order."""
        return (rank.uid for rank in self._groups[key[1:]][key.alike])

    def next(self, key: GroupKey, ready_at: Callable[[str], float], now: float) -> str:
        """Return the first pod of a group whose back-off is over; if there is none, the one whose back-off ends first.

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
