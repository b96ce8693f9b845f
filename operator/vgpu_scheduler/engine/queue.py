"""The scheduling queue: which pod is tried next, and what each waiting pod waits for.

A waiting pod is in one of three places. *Active* pods are tried by priority, then age (:class:`ActivePods`).
Pods in *back-off* become active by themselves: 1 s after the first attempt, doubling to 10 s. *Unschedulable* pods
wait for a change that could resolve the reasons for which they were rejected. Of the pods that would get the same
answer only the first is then tried; when it is placed, the next one is tried. Every unschedulable pod is tried again
after 5 minutes, because a missed event must not strand a pod; a metric counts such misses.

What moves a pod from one place to another (a test reads this table)::

    active          pop, pop_specific           in flight
    backoff         pop_specific                in flight
    unschedulable   pop_specific                in flight
    in flight       add                         active          it has changed during the attempt
    in flight       back_off                    backoff
    in flight       add_unschedulable           unschedulable
    in flight       return_unschedulable        unschedulable   no changed node helps it; this counts as no attempt
    in flight       return_untried              unschedulable   it could not be tried; this counts as no attempt
    backoff         flush_due                   active          its back-off is over
    backoff         add                         active
    unschedulable   requeue, wake               active          backoff, while its back-off lasts
    unschedulable   wake_equivalent             active          only one of its equivalent pods
    unschedulable   flush_due                   active          no event came for 5 minutes
    unschedulable   add                         active

Always true: a pod in back-off and an unschedulable pod have a time in ``_due``; only unschedulable pods have a class;
and ``_tried_for`` names for an equivalence the one pod that was woken for all of them and is not answered yet, as its
own ``tried_for`` does. Until then events wake no other pod of that equivalence, unless it goes before that one.

Decisions are made synchronously between two calls of this class, so that no event can fall between an attempt and its
outcome: kube-scheduler's list of events in flight has no counterpart here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import count

from vgpu_scheduler.engine.queue_reader import QueueReader
from vgpu_scheduler.engine.queued_pods import (
    MAX_UNHELPFUL_CHANGES,
    QueuedPod,
    QueueEvent,
    QueueName,
    RetryBasis,
    UnschedulableClass,
)
from vgpu_scheduler.model import ClusterEvent, KeyedHeap

FLUSH_AFTER = 300.0
"""Seconds that a pod stays unschedulable without an event."""


class SchedulingQueue(QueueReader):
    """Pods that wait to be placed; the caller supplies the time (seconds, monotonic).

    Parameters
    ----------
    dissolved
        Called with each class of unschedulable pods when its last pod leaves.
    flush_after
        Seconds that a pod stays unschedulable without an event.
    """

    def __init__(
        self, dissolved: Callable[[UnschedulableClass], None] = lambda _: None, flush_after: float = FLUSH_AFTER
    ) -> None:
        super().__init__(dissolved)
        self._flush_after = flush_after
        self._due: KeyedHeap[str, float] = KeyedHeap()
        """When pods become active by themselves."""
        self._tried_for: dict[Hashable, str] = {}
        self._flushed: dict[str, ClusterEvent] = {}
        """The events that pods waited for which the flush alone has activated, by UID."""
        self._arrivals = count(1)
        self._priorities: dict[str, int] = {}
        """The group's priority, by UID of pods that are queued by it instead of their own."""
        self.incoming: Counter[tuple[QueueName, QueueEvent]] = Counter()
        """Number of pods that entered each place, by event."""
        self.placed_after_flush = 0
        """Number of pods that were placed only because of the flush: each means that an event was missed."""

    def moved(self, uid: str) -> None:
        """Note that a placed pod has been moved away from a slow node."""
        entry = self._entries.get(uid)
        if entry:
            entry.moves += 1

    def add(
        self, uid: str, priority: int, now: float, event: QueueEvent = QueueEvent.POD_UPDATE, *, created: str = ""
    ) -> None:
        """Make a pod active; a pod that is already active keeps its turn.

        Parameters
        ----------
        priority
            The pod's own. A priority set by :meth:`prioritise` takes precedence.
        created
            When its object was created (RFC 3339, UTC): the older of two pods is tried first.
        """
        entry, priority = self._entries.get(uid), self._priorities.get(uid, priority)
        if entry is None:
            event = QueueEvent.POD_ADD
            entry = self._entries[uid] = QueuedPod(uid, priority, QueueName.BACKOFF, now, created, next(self._arrivals))
        elif entry.place is QueueName.ACTIVE and entry.priority == priority:
            return
        self._leave(entry)  # before its rank changes
        self._flushed.pop(uid, None)
        entry.priority, entry.retry_basis = priority, None
        self._activate(entry, event)

    def prioritise(self, uid: str, priority: int | None) -> None:
        """Queue a pod by this priority (its group's) instead of its own.

        With None, its own priority counts again when the pod is added next.
        """
        if priority is None:
            self._priorities.pop(uid, None)
            return
        self._priorities[uid] = priority
        entry = self._entries.get(uid)
        if entry is not None and entry.place in {QueueName.IN_FLIGHT, QueueName.BACKOFF}:
            entry.priority = priority
        elif entry is not None and entry.priority != priority:
            self.add(uid, priority, entry.waiting_since)

    def remove(self, uid: str) -> None:
        """Remove a pod from the queue."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._leave(entry)
        self._flushed.pop(uid, None)
        del self._entries[uid]
        self._pass_on(entry, entry.attempted_at)

    def pop(self, now: float) -> str | None:
        """Take out the next active pod and count an attempt; None when no pod is active.

        The pod stays known until the attempt ends with ``remove``, ``add_unschedulable``, ``back_off`` or ``add``.
        """
        self.flush_due(now)
        uid = self._active.pop()
        if uid is not None:
            self._begin_attempt(self._entries[uid], now)
        return uid

    def pop_specific(self, uid: str, now: float) -> None:
        """Take out a waiting pod to be decided together with a popped pod."""
        entry = self._entries.get(uid)
        if entry is None or entry.place is QueueName.IN_FLIGHT:
            return
        self._leave(entry)
        self._active.popped_specific(entry)
        self._begin_attempt(entry, now)

    def _begin_attempt(self, entry: QueuedPod, now: float) -> None:
        entry.attempts += 1
        entry.attempted_at = now
        entry.tried_in = entry.round
        entry.rejected_by = ()
        entry.place = QueueName.IN_FLIGHT

    def add_unschedulable(
        self,
        uid: str,
        waits_for: ClusterEvent,
        now: float,
        equivalence: Hashable = None,
        rejected_by: tuple[str, ...] = (),
        nodes_version: int | None = None,
        retry_at: float | None = None,
    ) -> UnschedulableClass | None:
        """Mark a pod unschedulable until one of the events occurs; return its class.

        Parameters
        ----------
        equivalence
            Pods with an equal value get the same answer: one of them is tried for all. None for a pod that is in a
            class of its own.
        rejected_by
            The plugins or card reasons that rejected it.
        nodes_version
            The version of all nodes at this attempt, if each node rejected the pod by its own state alone: the next
            attempt then tries only nodes that have changed since, unless something else makes the pod active.
        retry_at
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
        flush_at = flush_at if retry_at is None else min(retry_at, flush_at)
        if nodes_version is None:
            entry.retry_basis = None
        else:
            entry.retry_basis = RetryBasis(equivalence, waits_for, rejected_by, nodes_version, now, flush_at)
        key = UnschedulableClass(uid if equivalence is None else equivalence, waits_for, nodes_version is not None)
        self._flushed.pop(uid, None)
        entry.place, entry.unschedulable_class = QueueName.UNSCHEDULABLE, key
        self._unschedulable.add(key, entry.rank)
        self._due.add_or_update(uid, flush_at)
        if entry.tried_for == key.equivalence:
            self._answered(entry)  # its equivalent pods would not fit either
        self._pass_on(entry, now)
        return key

    def return_unschedulable(self, uid: str, retry_basis: RetryBasis, now: float) -> UnschedulableClass | None:
        """Mark a popped pod unschedulable again without counting an attempt, because no changed node helps it.

        If that happens too often in a row, the pod backs off: a node may have room, yet not for this pod.
        The time at which all nodes are tried again (``retry_basis.retry_at``) stays the same.
        """
        entry = self._entries.get(uid)
        if entry is None:
            return None
        events = entry.forget_attempt(now)
        if events > MAX_UNHELPFUL_CHANGES:
            entry.attempted_at = now
        waits_for, rejected_by = retry_basis.waits_for, retry_basis.rejected_by
        unschedulable_class = self.add_unschedulable(
            uid,
            waits_for,
            now,
            retry_basis.equivalence,
            rejected_by,
            retry_basis.nodes_version,
            retry_basis.retry_at,
        )
        entry.unhelpful_events, entry.retry_basis = events, retry_basis
        return unschedulable_class

    def placed(self, uid: str, now: float) -> None:
        """Note that a pod was placed: an equivalent pod may fit, too, so try the next one."""
        entry = self._entries.get(uid)
        if entry is not None:
            self.placed_after_flush += self._flushed.pop(uid, None) is not None
            self._pass_on(entry, now)

    def return_untried(self, uid: str, waits_for: ClusterEvent, now: float) -> None:
        """Mark a popped pod that could not be tried unschedulable, without counting an attempt."""
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
        """Wake the unschedulable pods that one of the events could help, one per equivalence; return how many.

        Parameters
        ----------
        helped
            The classes with ``node_local`` that the changed nodes may help. They wake whatever event they wait for:
            a node that changes twice may reject a pod for a different reason in between.
        anew
            Try the pods of ``helped`` on all nodes instead of the changed ones.
        """
        if not events:
            return 0
        for uid in [uid for uid, waits_for in self._flushed.items() if waits_for & events]:
            del self._flushed[uid]  # this event would have woken it, so none was missed
        event = QueueEvent.of(events)
        count = sum(self._try_first(key.equivalence, now, event) for key in self._unschedulable.waiting_for(events))
        return count + sum(self._try_first(key.equivalence, now, event, anew=anew) for key in helped)

    def wake(self, woken: Iterable[str], now: float, event: QueueEvent) -> None:
        """Try again those of the given pods that are unschedulable, each after its back-off."""
        for uid in woken:
            self._flushed.pop(uid, None)
            entry = self._entries.get(uid)
            if entry is not None and entry.place is QueueName.UNSCHEDULABLE:
                entry.retry_basis = None
                self._wake(entry, now, event)

    def wake_equivalent(self, woken: Iterable[str], now: float, event: QueueEvent) -> None:
        """Try unschedulable pods again, one per equivalence."""
        classes = (self._entries[uid].unschedulable_class for uid in woken)
        equivalences = dict.fromkeys(each.equivalence for each in classes if each is not None)
        for equivalence in equivalences:
            self._try_first(equivalence, now, event)

    def flush_due(self, now: float) -> float | None:
        """Activate the pods whose back-off or flush is due; return when the next one is due."""
        while (first := self._due.peek()) is not None:
            if first.rank > now:
                return first.rank
            self._activate_due(self._entries[first.key])
        return None

    def _activate_due(self, entry: QueuedPod) -> None:
        """Activate a pod whose back-off or flush is due."""
        unschedulable_class = entry.unschedulable_class
        self._leave(entry)
        if unschedulable_class is None:
            self._activate(entry, QueueEvent.BACKOFF_COMPLETE)
            return
        entry.retry_basis = None
        # Otherwise an event has woken an equivalent pod, which is tried for this one as well.
        if unschedulable_class.equivalence not in self._tried_for:
            self._flushed[entry.uid] = unschedulable_class.waits_for
        self._activate(entry, QueueEvent.TIMEOUT)

    def _try_first(self, equivalence: Hashable, now: float, event: QueueEvent, *, anew: bool = False) -> bool:
        """Wake the first of equivalent pods, unless one that goes before it is already being tried; return whether.

        Equivalent pods may wait for different events; an event that helps one of them helps all.
        """
        entry = self._entries.get(self._unschedulable.next(equivalence, lambda uid: self._entries[uid].ready_at, now))
        ahead = self._entries.get(self._tried_for.get(equivalence, ""))
        if entry is None or (ahead is not None and ahead.goes_before(entry, now)):
            return False
        self._wake(entry, now, event)
        entry.tried_for = equivalence
        entry.retry_basis = None if anew else entry.retry_basis
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
        """Wake the next pod equivalent to this one, if it was tried for them and gave no answer that holds for them."""
        equivalence = entry.tried_for
        if equivalence is None:
            return
        self._answered(entry)
        self._try_first(equivalence, now, QueueEvent.FORCE_ACTIVATE, anew=entry.retry_basis is None)

    def _answered(self, entry: QueuedPod) -> None:
        if self._tried_for.get(entry.tried_for) == entry.uid:
            del self._tried_for[entry.tried_for]
        entry.tried_for = None

    def _activate(self, entry: QueuedPod, event: QueueEvent) -> None:
        self.incoming[QueueName.ACTIVE, event] += 1
        entry.place = QueueName.ACTIVE
        self._active.add(entry)

    def _delay(self, entry: QueuedPod, until: float, event: QueueEvent) -> None:
        self.incoming[QueueName.BACKOFF, event] += 1
        entry.place = QueueName.BACKOFF
        self._due.add_or_update(entry.uid, until)

    def _leave(self, entry: QueuedPod) -> None:
        """Take a pod out of its class, of the active pods, and of those that become active by themselves."""
        if entry.place is QueueName.ACTIVE:
            self._active.discard(entry)
        elif entry.place is not QueueName.IN_FLIGHT:
            self._due.delete(entry.uid)
        if entry.unschedulable_class is not None:
            self._unschedulable.discard(entry.unschedulable_class, entry.rank)
            entry.unschedulable_class = None
