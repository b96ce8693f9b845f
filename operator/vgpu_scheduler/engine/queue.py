"""The scheduling queue: who is tried next, who waits for what.

A waiting pod is in one of three places. *Active* pods are tried by priority, then by the time they became active.
Pods in *back-off* become active by themselves: 1 s after the first attempt, doubling to 10 s. *Unschedulable* pods
wait for a change that could help the reasons they were rejected for, and are tried again after 5 minutes whatever
happened (a missed hint must not strand a pod).

Decisions are made synchronously between two calls of this class, so that no event can fall between an attempt and its
outcome: upstream's list of events in flight has no counterpart here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.model import Hint

INITIAL_BACKOFF = 1.0
"""Seconds."""
MAX_BACKOFF = 10.0
"""Seconds."""
FLUSH_AFTER = 300.0
"""Seconds that a pod stays unschedulable without a hint."""


class Place(Enum):
    """Where a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    TRYING = "trying"
    """Popped: being decided or bound."""


@dataclass(slots=True)
class _Entry:
    priority: int
    place: Place
    since: float
    came: float
    attempts: int = 0
    attempted_at: float = 0.0
    waits_for: Hint = Hint.NONE
    ticket: int = 0
    """Heap items with another ticket are leftovers of an earlier place."""


class SchedulingQueue:
    """Pods that wait to be placed; the caller supplies the time (seconds, monotonic)."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._active: list[tuple[int, float, int, str]] = []
        self._due: list[tuple[float, int, str]] = []
        self._parked: dict[Hint, dict[str, None]] = {}
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def counts(self) -> Mapping[Place, int]:
        """Return how many pods wait in each place."""
        counts = dict.fromkeys(Place, 0)
        for entry in self._entries.values():
            counts[entry.place] += 1
        return counts

    def place(self, uid: str) -> Place | None:
        """Return where a pod waits, or None."""
        entry = self._entries.get(uid)
        return entry.place if entry else None

    @property
    def ready(self) -> bool:
        """Whether a pod may be active; leftovers of earlier places count until they are popped."""
        return bool(self._active)

    def attempts(self, uid: str) -> int:
        """Return how often a pod was tried since it came."""
        entry = self._entries.get(uid)
        return entry.attempts if entry else 0

    def waited(self, uid: str, now: float) -> float:
        """Return how long ago a pod came, in seconds."""
        entry = self._entries.get(uid)
        return now - entry.came if entry else 0.0

    def add(self, uid: str, priority: int, now: float) -> None:
        """Make a pod active; one that waits elsewhere is moved, one that is active keeps its turn."""
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(priority, Place.BACKOFF, now, now)
        elif entry.place is Place.ACTIVE and entry.priority == priority:
            return
        entry.priority = priority
        self._activate(uid, entry, now)

    def remove(self, uid: str) -> None:
        """Take a pod out, wherever it waits."""
        entry = self._entries.pop(uid, None)
        if entry and entry.place is Place.UNSCHEDULABLE:
            self._unpark(uid, entry)

    def pop(self, now: float) -> str | None:
        """Take the next active pod out of its place and count an attempt; None when none is active.

        The pod stays known until the attempt ends with ``remove``, ``park``, ``back_off`` or ``add``.
        """
        self.tick(now)
        while self._active:
            _, _, ticket, uid = heapq.heappop(self._active)
            entry = self._entries.get(uid)
            if entry and entry.ticket == ticket and entry.place is Place.ACTIVE:
                entry.attempts += 1
                entry.attempted_at = now
                entry.place, entry.ticket = Place.TRYING, self._next_ticket()
                return uid
        return None

    def take(self, uid: str, now: float) -> None:
        """Take a pod out of its place, wherever it waits, to be decided together with one that was popped."""
        entry = self._entries.get(uid)
        if entry is None or entry.place is Place.TRYING:
            return
        self._leave(uid, entry)
        entry.attempts += 1
        entry.attempted_at = now
        entry.place, entry.ticket = Place.TRYING, self._next_ticket()

    def park(self, uid: str, waits_for: Hint, now: float) -> None:
        """Put a pod among the unschedulable ones, until one of the hints is given."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._leave(uid, entry)
        entry.place, entry.since, entry.waits_for = Place.UNSCHEDULABLE, now, waits_for
        entry.ticket = self._next_ticket()
        self._parked.setdefault(waits_for, {})[uid] = None
        heapq.heappush(self._due, (now + FLUSH_AFTER, entry.ticket, uid))

    def back_off(self, uid: str, now: float, at_least: float = 0.0) -> None:
        """Try a pod again after its back-off, or after ``at_least`` seconds if that is longer."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._leave(uid, entry)
        self._delay(uid, entry, max(self._ready_at(entry), now + at_least))

    def hint(self, hints: Hint, now: float) -> int:
        """Wake the unschedulable pods that one of the hints could help; return how many."""
        if not hints:
            return 0
        return self.wake([uid for waits_for, uids in self._parked.items() if waits_for & hints for uid in uids], now)

    def parked(self, waits_for: Hint | None = None) -> Iterator[str]:
        """Yield the unschedulable pods, or those that one of some hints could help."""
        parked = self._parked.items()
        return (uid for hints, uids in parked if waits_for is None or hints & waits_for for uid in uids)

    def wake(self, woken: Sequence[str], now: float) -> int:
        """Let unschedulable pods be tried again, each after its back-off; return how many."""
        for uid in woken:
            entry = self._entries[uid]
            self._unpark(uid, entry)
            ready_at = self._ready_at(entry)
            if ready_at > now:
                self._delay(uid, entry, ready_at)
            else:
                self._activate(uid, entry, now)
        return len(woken)

    def tick(self, now: float) -> float | None:
        """Activate the pods whose time has come; return when the next one's comes."""
        while self._due:
            due, ticket, uid = self._due[0]
            entry = self._entries.get(uid)
            stale = entry is None or entry.ticket != ticket
            if not stale and due > now:
                return due
            heapq.heappop(self._due)
            if entry and not stale:
                self._leave(uid, entry)
                self._activate(uid, entry, now)
        return None

    def _activate(self, uid: str, entry: _Entry, now: float) -> None:
        self._leave(uid, entry)
        entry.place, entry.since = Place.ACTIVE, now
        entry.ticket = self._next_ticket()
        heapq.heappush(self._active, (-entry.priority, now, entry.ticket, uid))

    def _delay(self, uid: str, entry: _Entry, until: float) -> None:
        entry.place = Place.BACKOFF
        entry.ticket = self._next_ticket()
        heapq.heappush(self._due, (until, entry.ticket, uid))

    def _leave(self, uid: str, entry: _Entry) -> None:
        if entry.place is Place.UNSCHEDULABLE:
            self._unpark(uid, entry)

    def _unpark(self, uid: str, entry: _Entry) -> None:
        uids = self._parked.get(entry.waits_for, {})
        uids.pop(uid, None)
        if not uids:
            self._parked.pop(entry.waits_for, None)

    def _ready_at(self, entry: _Entry) -> float:
        # Capped before the power: a pod that waits for months must not overflow a float.
        doublings = min(max(entry.attempts - 1, 0), 10)
        return entry.attempted_at + min(INITIAL_BACKOFF * float(1 << doublings), MAX_BACKOFF)

    def _next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket
