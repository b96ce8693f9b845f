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
    """

    alike: Hashable
    waits_for: Hint


class ParkedPods:
    """The groups. Their first pod is tried for all: only when it was placed is the next one's turn."""

    def __init__(self) -> None:
        self._groups: dict[Hint, dict[Hashable, list[Rank]]] = {}

    def add(self, key: GroupKey, rank: Rank) -> None:
        """Take in a pod."""
        insort(self._groups.setdefault(key.waits_for, {}).setdefault(key.alike, []), rank)

    def discard(self, key: GroupKey, rank: Rank) -> None:
        """Take out a pod."""
        groups = self._groups[key.waits_for]
        ranks = groups[key.alike]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del groups[key.alike]
            if not groups:
                del self._groups[key.waits_for]

    def waiting_for(self, hints: Hint | None = None) -> list[GroupKey]:
        """Return the groups that one of some hints could help; all of them without any."""
        return [
            GroupKey(alike, waits_for)
            for waits_for, groups in self._groups.items()
            if hints is None or waits_for & hints
            for alike in groups
        ]

    def any_for(self, hints: Hint) -> bool:
        """Tell whether one of some hints could help any group."""
        return any(waits_for & hints for waits_for in self._groups)

    def alike(self, alike: Hashable) -> list[GroupKey]:
        """Return the groups whose pods get the same answer, whatever they wait for."""
        return [GroupKey(alike, waits_for) for waits_for, groups in self._groups.items() if alike in groups]

    def uids(self, key: GroupKey) -> Iterator[str]:
        """Yield the pods of a group in their order."""
        return (rank.uid for rank in self._groups[key.waits_for][key.alike])

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
