"""The scheduling queue: who is tried next, who waits for what.

A waiting pod is in one of three places. *Active* pods are tried by priority, then age (:class:`ActivePods`).
Pods in *back-off* become active by themselves: 1 s after the first attempt, doubling to 10 s. *Unschedulable* pods
wait for a change that could help the reasons they were rejected for. Of those that would get the same answer only the
first is tried then; when it was placed, it is the next one's turn. Whatever happened, each of them is tried again after
5 minutes: a missed event must not strand a pod, and a counter tells when one was missed.

Decisions are made synchronously between two calls of this class, so that no event can fall between an attempt and its
outcome: upstream's list of events in flight has no counterpart here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from vgpu_scheduler.engine.queued_pods import (
    MAX_UNHELPFUL_CHANGES,
    ActivePods,
    LastAttempt,
    QueuedPod,
    QueueEvent,
    QueueName,
    UnschedulableClass,
    UnschedulablePods,
)
from vgpu_scheduler.model import ClusterEvent

FLUSH_AFTER = 300.0
"""Seconds that a pod stays unschedulable without an event."""


class SchedulingQueue:
    """Pods that wait to be placed; the caller supplies the time (seconds, monotonic).

    Parameters
    ----------
    dissolved
        Told of each class of unschedulable pods of which the last one has gone.
    flush_after
        Seconds that a pod stays unschedulable without an event.
    """

    def __init__(
        self, dissolved: Callable[[UnschedulableClass], None] = lambda _: None, flush_after: float = FLUSH_AFTER
    ) -> None:
        self._flush_after = flush_after
        self._entries: dict[str, QueuedPod] = {}
        self._active = ActivePods()
        self._due: list[tuple[float, int, str]] = []
        self._unschedulable = UnschedulablePods(dissolved)
        self._tried_for: dict[Hashable, str] = {}
        self._flushed: dict[str, ClusterEvent] = {}
        """What those waited for whom nothing but the time that passed has made active."""
        self._ticket = 0
        self._priorities: dict[str, int] = {}
        """Of pods whose turn comes by another priority than their own."""
        self.incoming: Counter[tuple[QueueName, QueueEvent]] = Counter()
        """How many pods came into each place, and why."""
        self.placed_after_flush = 0
        """How many pods only the flush has placed: each stands for a change that was not noticed."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def counts(self) -> Mapping[QueueName, int]:
        """Return how many pods wait in each place."""
        counts = dict.fromkeys(QueueName, 0)
        for entry in self._entries.values():
            counts[entry.place] += 1
        return counts

    def place(self, uid: str) -> QueueName | None:
        """Return where a pod waits, or None."""
        entry = self._entries.get(uid)
        return entry.place if entry else None

    def rejected(self) -> Iterator[tuple[str, str]]:
        """Yield each pod that waits after an attempt with each of the plugins or card reasons that rejected it."""
        return ((uid, plugin) for uid, entry in self._entries.items() for plugin in entry.rejected_by)

    def waiting_since(self) -> Iterator[tuple[str, float]]:
        """Yield each pod that waits, wherever it does, with the time when it came."""
        return ((uid, entry.came) for uid, entry in self._entries.items())

    @property
    def ready(self) -> bool:
        """Whether a pod is active."""
        return bool(self._active)

    def attempts(self, uid: str) -> int:
        """Return how often a pod was tried since it came."""
        entry = self._entries.get(uid)
        return entry.attempts if entry else 0

    def moves(self, uid: str) -> int:
        """Return how often a pod has been moved away from a slow node since it came."""
        entry = self._entries.get(uid)
        return entry.moves if entry else 0

    def moved(self, uid: str) -> None:
        """Note that a placed pod has been moved away from a slow node."""
        entry = self._entries.get(uid)
        if entry:
            entry.moves += 1

    def waited(self, uid: str, now: float) -> float:
        """Return how long ago a pod came, in seconds."""
        entry = self._entries.get(uid)
        return now - entry.came if entry else 0.0

    def add(
        self, uid: str, priority: int, now: float, event: QueueEvent = QueueEvent.POD_UPDATE, *, created: str = ""
    ) -> None:
        """Make a pod active; one that waits elsewhere is moved, one that is active keeps its turn.

        Parameters
        ----------
        created
            When its object was created (RFC 3339, UTC): the older of two is tried first.
        """
        entry, priority = self._entries.get(uid), self._priorities.get(uid, priority)
        if entry is None:
            event = QueueEvent.POD_ADD
            entry = self._entries[uid] = QueuedPod(uid, priority, QueueName.BACKOFF, now, created, self._next_ticket())
        elif entry.place is QueueName.ACTIVE and entry.priority == priority:
            return
        self._leave(entry)  # by the rank that it had
        self._flushed.pop(uid, None)
        entry.priority, entry.last_attempt = priority, None
        self._activate(entry, event)

    def prioritise(self, uid: str, priority: int | None) -> None:
        """Queue a pod by this priority (that of its group) instead of the one that it is added with.

        With None, the latter counts again when the pod is added next.
        """
        if priority is None:
            self._priorities.pop(uid, None)
            return
        self._priorities[uid] = priority
        entry = self._entries.get(uid)
        if entry is not None and entry.place in {QueueName.TRYING, QueueName.BACKOFF}:
            entry.priority = priority
        elif entry is not None and entry.priority != priority:
            self.add(uid, priority, entry.came)

    def remove(self, uid: str) -> None:
        """Take a pod out, wherever it waits."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._leave(entry)
        self._flushed.pop(uid, None)
        del self._entries[uid]
        self._pass_on(entry, entry.attempted_at)

    def pop(self, now: float) -> str | None:
        """Take the next active pod out of its place and count an attempt; None when none is active.

        The pod stays known until the attempt ends with ``remove``, ``add_unschedulable``, ``back_off`` or ``add``.
        """
        self.tick(now)
        entry = self._active.pop()
        if entry is None:
            return None
        self._try(entry, now)
        return entry.uid

    def take(self, uid: str, now: float) -> None:
        """Take a pod out of its place, wherever it waits, to be decided together with one that was popped."""
        entry = self._entries.get(uid)
        if entry is None or entry.place is QueueName.TRYING:
            return
        self._leave(entry)
        self._active.join(entry)
        self._try(entry, now)

    def _try(self, entry: QueuedPod, now: float) -> None:
        entry.attempts += 1
        entry.attempted_at = now
        entry.tried_in = entry.round
        entry.rejected_by = ()
        entry.place, entry.ticket = QueueName.TRYING, self._next_ticket()

    def add_unschedulable(
        self,
        uid: str,
        waits_for: ClusterEvent,
        now: float,
        equivalence: Hashable = None,
        rejected_by: tuple[str, ...] = (),
        nodes_version: int | None = None,
        again_at: float | None = None,
    ) -> UnschedulableClass | None:
        """Put a pod among the unschedulable ones, until one of the events is given; return the class that it is in.

        Parameters
        ----------
        equivalence
            Pods with an equal value get the same answer: one of them is tried for all. None for a pod that stands for
            itself.
        rejected_by
            The plugins or card reasons that rejected it.
        nodes_version
            The version of all nodes at this attempt, if each rejected the pod by its own state alone: the next attempt
            then tries only nodes that have changed since, unless something else makes the pod active.
        again_at
            When it is tried again at the latest, if that is before the flush.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        self._leave(entry)
        entry.unhelpful_events = 0
        self.incoming[QueueName.UNSCHEDULABLE, QueueEvent.ATTEMPT_FAILURE] += 1
        entry.rejected_by = rejected_by
        flush_at = now + self._flush_after
        flush_at = flush_at if again_at is None else min(again_at, flush_at)
        if nodes_version is None:
            entry.last_attempt = None
        else:
            entry.last_attempt = LastAttempt(equivalence, waits_for, rejected_by, nodes_version, now, flush_at)
        key = UnschedulableClass(uid if equivalence is None else equivalence, waits_for, nodes_version is not None)
        self._flushed.pop(uid, None)
        entry.place, entry.unschedulable_class = QueueName.UNSCHEDULABLE, key
        entry.ticket = self._next_ticket()
        self._unschedulable.add(key, entry.rank)
        heapq.heappush(self._due, (flush_at, entry.ticket, uid))
        if entry.tried_for == key.equivalence:
            self._answered(entry)  # the others would not fit either
        self._pass_on(entry, now)
        return key

    def last_attempt(self, uid: str) -> LastAttempt | None:
        """Return what came of a pod's last attempt, if only changes of nodes since then need to be looked at."""
        entry = self._entries.get(uid)
        return entry.last_attempt if entry else None

    def return_unschedulable(self, uid: str, last_attempt: LastAttempt, now: float) -> UnschedulableClass | None:
        """Return a popped pod to the unschedulable ones: that was no attempt, for the changed nodes do not help it.

        Where that happens again and again, it backs off: a node may have room, and yet not for pods such as this one.
        When it was to be tried again after its last attempt all nodes are asked for it, however often it was looked at.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        events = entry.forget_attempt(now)
        if events > MAX_UNHELPFUL_CHANGES:
            entry.attempted_at = now
        waits_for, rejected_by = last_attempt.waits_for, last_attempt.rejected_by
        unschedulable_class = self.add_unschedulable(
            uid,
            waits_for,
            now,
            last_attempt.equivalence,
            rejected_by,
            last_attempt.nodes_version,
            last_attempt.again_at,
        )
        entry.unhelpful_events, entry.last_attempt = events, last_attempt
        return unschedulable_class

    def placed(self, uid: str, now: float) -> None:
        """Note that a pod was placed: there may be room for the next one that asks the same."""
        entry = self._entries.get(uid)
        if entry is not None:
            self.placed_after_flush += self._flushed.pop(uid, None) is not None
            self._pass_on(entry, now)

    def set_aside(self, uid: str, waits_for: ClusterEvent, now: float) -> None:
        """Put a pod that was popped, and could not be tried, among the unschedulable ones: it was no attempt."""
        entry = self._entries.get(uid)
        if entry is not None:
            events = entry.forget_attempt(now)
            self.add_unschedulable(uid, waits_for, now)
            entry.unhelpful_events = events

    def back_off(self, uid: str, now: float, at_least: float = 0.0) -> None:
        """Try a pod again after its back-off, or after ``at_least`` seconds if that is longer."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._leave(entry)
        self._delay(entry, max(entry.ready_at, now + at_least), QueueEvent.ATTEMPT_FAILURE)

    def requeue(
        self, events: ClusterEvent, now: float, helped: Iterable[UnschedulableClass] = (), *, anew: bool = False
    ) -> int:
        """Wake the unschedulable pods that one of the events could help, one for all that are alike; return how many.

        Parameters
        ----------
        helped
            The classes that the nodes which have changed may help, of those that nodes reject for what they are. What
            these waited for does not count: a node that changes twice may reject them for something else in between.
        anew
            Have all nodes asked for them, not those alone that have changed.
        """
        if not events:
            return 0
        for uid in [uid for uid, waits_for in self._flushed.items() if waits_for & events]:
            del self._flushed[uid]  # it would have been woken now
        event = QueueEvent.of(events)
        count = sum(self._try_first(key.equivalence, now, event) for key in self._unschedulable.waiting_for(events))
        return count + sum(self._try_first(key.equivalence, now, event, anew=anew) for key in helped)

    def unschedulable(self, waits_for: ClusterEvent | None = None) -> Iterator[str]:
        """Yield the unschedulable pods, or those that one of some events could help."""
        keys = [key for key in self._unschedulable.all() if waits_for is None or key.waits_for & waits_for]
        return (uid for key in keys for uid in self._unschedulable.uids(key))

    def anybody_waits_for(self, events: ClusterEvent) -> bool:
        """Tell whether one of some events could help an unschedulable pod."""
        return self._unschedulable.any_for(events)

    def wake(self, woken: Iterable[str], now: float, event: QueueEvent) -> None:
        """Let those of some pods that are unschedulable be tried again, each after its back-off."""
        for uid in woken:
            self._flushed.pop(uid, None)
            entry = self._entries.get(uid)
            if entry is not None and entry.place is QueueName.UNSCHEDULABLE:
                entry.last_attempt = None
                self._wake(entry, now, event)

    def wake_equivalent(self, woken: Iterable[str], now: float, event: QueueEvent) -> None:
        """Let unschedulable pods be tried again, one for all that are alike."""
        classes = (self._entries[uid].unschedulable_class for uid in woken)
        equivalences = dict.fromkeys(each.equivalence for each in classes if each is not None)
        for equivalence in equivalences:
            self._try_first(equivalence, now, event)

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
                event = QueueEvent.BACKOFF_COMPLETE
                if entry.unschedulable_class is not None:
                    event, entry.last_attempt = QueueEvent.TIMEOUT, None
                    # Else one was woken in time, for this one as well.
                    if entry.unschedulable_class.equivalence not in self._tried_for:
                        self._flushed[uid] = entry.unschedulable_class.waits_for
                self._activate(entry, event)
        return None

    def _try_first(self, equivalence: Hashable, now: float, event: QueueEvent, *, anew: bool = False) -> bool:
        """Wake the first of the pods that are alike, unless one is tried before it; tell whether it was woken.

        Whatever each of them waits for: what helps one helps all, and those tried last know best what that is.
        """
        entry = self._entries.get(self._unschedulable.next(equivalence, lambda uid: self._entries[uid].ready_at, now))
        ahead = self._entries.get(self._tried_for.get(equivalence, ""))
        if entry is None or (ahead is not None and ahead.goes_before(entry, now)):
            return False
        self._wake(entry, now, event)
        entry.tried_for = equivalence
        entry.last_attempt = None if anew else entry.last_attempt
        self._tried_for[equivalence] = entry.uid
        return True

    def _wake(self, entry: QueuedPod, now: float, event: QueueEvent) -> None:
        self._leave(entry)
        ready_at = entry.ready_at
        if ready_at > now:
            self._delay(entry, ready_at, event)
        else:
            self._activate(entry, event)

    def _pass_on(self, entry: QueuedPod, now: float) -> None:
        """Try the next of those for which a pod was tried, of which no answer came that holds for them."""
        equivalence = entry.tried_for
        if equivalence is None:
            return
        self._answered(entry)
        self._try_first(equivalence, now, QueueEvent.FORCE_ACTIVATE, anew=entry.last_attempt is None)

    def _answered(self, entry: QueuedPod) -> None:
        if self._tried_for.get(entry.tried_for) == entry.uid:
            del self._tried_for[entry.tried_for]
        entry.tried_for = None

    def _activate(self, entry: QueuedPod, event: QueueEvent) -> None:
        self._leave(entry)
        self.incoming[QueueName.ACTIVE, event] += 1
        entry.place = QueueName.ACTIVE
        entry.ticket = self._next_ticket()
        self._active.add(entry)

    def _delay(self, entry: QueuedPod, until: float, event: QueueEvent) -> None:
        self.incoming[QueueName.BACKOFF, event] += 1
        entry.place = QueueName.BACKOFF
        entry.ticket = self._next_ticket()
        heapq.heappush(self._due, (until, entry.ticket, entry.uid))

    def _leave(self, entry: QueuedPod) -> None:
        """Take a pod out of its class, if it is in one, and from the active ones."""
        self._active.discard(entry)
        if entry.unschedulable_class is not None:
            self._unschedulable.discard(entry.unschedulable_class, entry.rank)
            entry.unschedulable_class = None

    def _next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket
