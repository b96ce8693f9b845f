"""Which reports are written: events in series, and what waiting pods say. Nothing is sent here.

Repetitions of an event become a series, and no object gets more than its share. The numbers are those of client-go: a
repetition within 6 minutes of the last one joins it, and a source may post 25 events about an object at once, then one
every 5 minutes.

A pod that waits costs one event an hour while nothing changes, and nothing else: events expire, and ``kubectl
describe`` is to show a reason at any time. :class:`WaitingPods` says when a condition is worth a write, and when an
event is told again.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass
from datetime import datetime
from sys import getsizeof
from zlib import crc32

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, ConditionReason, EventReason, TokenBucket, bytes_of

__all__ = ["ConditionText", "Event", "EventSeries", "Occurrences", "Regarding", "WaitingPods"]

_WINDOW = 360.0
"""Seconds after which something that happens again is told by an event of its own."""
_REFRESH = 1800.0
"""Seconds after which the count of a series that goes on is written, so that the event does not expire meanwhile."""
_BURST = 25.0
"""Events about one object at once."""
_REFILL = 300.0
"""Seconds until one more is allowed."""
_SERIES_BYTES = 12 * 2**20
"""What the series may take of which something is known: 4,000 of the longest events, or several times as many."""
_BUCKETS_BYTES = 4 * 2**20
"""What is known of how many events an object had may take: about 5,000 objects."""
_RECORD = 100
"""Bytes that a record takes beside its texts."""
_PER_ENTRY = 300
"""Bytes that a series takes beside its event, or the events of an object beside its name."""


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def bytes(self) -> int:
        """About what its texts take."""
        return _RECORD + sum(map(getsizeof, (self.kind, self.namespace, self.name, self.uid)))


@dataclass(frozen=True, slots=True)
class Event:
    """What an event says, apart from when; events that say the same are one series.

    Attributes
    ----------
    type
        ``Normal`` or ``Warning``.
    """

    about: Regarding
    type: str
    reason: EventReason
    action: str
    note: str

    @property
    def bytes(self) -> int:
        """About what its texts take."""
        return self.about.bytes + _RECORD + sum(map(getsizeof, (self.type, self.reason, self.action, self.note)))


@dataclass(frozen=True, slots=True)
class Occurrences:
    """An event as it is to be written.

    Attributes
    ----------
    first, last
        When it happened for the first and for the last time.
    count
        How often it happened: with 1 it is a new event, else the series of one that was posted.
    """

    event: Event
    first: datetime
    last: datetime
    count: int = 1


@dataclass(slots=True)
class _Series:
    told: Occurrences
    seen: float
    written: int = 1
    written_at: float = 0.0


class EventSeries:
    """What was told lately; the caller supplies the time, as seconds (monotonic) and as the time of day."""

    def __init__(self) -> None:
        self._series: BoundedCache[Event, _Series] = BoundedCache(_SERIES_BYTES)
        """By when it happened last."""
        self._buckets: BoundedCache[tuple[Regarding, str], TokenBucket] = BoundedCache(_BUCKETS_BYTES)
        self.limited = 0
        """How many events were not written because their object had too many."""

    def happened(self, event: Event, now: float, time: datetime) -> Occurrences | None:
        """Note that something happened; return what is to be written, None where nothing is.

        The first repetition makes a series, which is written. Later ones are counted, and written after half an hour,
        or by :meth:`finished`, which is to be asked first.
        """
        known = self._series.get(event)
        if known is None or known.seen + _WINDOW <= now:
            if not self._allowed(event, now):
                return None
            series = _Series(Occurrences(event, time, time), now, written_at=now)
            self._series.put(event, series, _PER_ENTRY + event.bytes)
            return series.told
        known.told = Occurrences(event, known.told.first, time, known.told.count + 1)
        known.seen = now
        is_due = known.told.count == 2 or known.written_at + _REFRESH <= now
        if not is_due or not self._allowed(event, now):
            return None
        known.written, known.written_at = known.told.count, now
        return known.told

    def finished(self, now: float) -> list[Occurrences]:
        """Forget what has not happened again for a while; return the series whose last count is to be written."""
        ended = []
        while (oldest := next(self._series.items(), None)) is not None:
            event, series = oldest
            if series.seen + _WINDOW > now:
                break
            self._series.pop(event)
            if series.written < series.told.count:
                ended.append(series.told)
        return ended

    def _allowed(self, event: Event, now: float) -> bool:
        """Take a token of the object's bucket; False if there is none."""
        key = (event.about, event.type)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = TokenBucket(_BURST, _REFILL, now)
            self._buckets.put(key, bucket, _PER_ENTRY + event.about.bytes)
        if not bucket.take(now):
            self.limited += 1
            return False
        return True


_NUMBERS_AT_MOST = 60.0
"""Seconds between two writes of a condition of which only numbers change."""
_TOLD_AGAIN = 3300.0
"""Seconds after which an event is told again; API servers keep events for an hour (``--event-ttl``)."""
_CAUGHT_UP = 300.0
"""Seconds within which the events of pods that an earlier leader reported on are told again."""
_MOST_BYTES = 24 * 2**20
"""What may be remembered of what pods say: about 20,000 of them, some of which are gone for up to an hour."""
_PER_POD = 300
"""Bytes of that beside its words."""
_IDLE_TIMERS = 1000
"""Timers of which most mean nothing any more before they are looked through."""
_NUMBER = re.compile(r"(?<![\w./-])\d+(?:/\d+)?(?![\w/-]|\.\w)")


@dataclass(frozen=True, slots=True)
class ConditionText:
    """Why a pod waits.

    Attributes
    ----------
    reason, message
        Of the condition.
    note
        What the event adds to the message.
    """

    reason: ConditionReason
    message: str
    note: str = ""

    @property
    def text(self) -> str:
        """What the event says."""
        return f"{self.message} {self.note}" if self.note else self.message

    @property
    def kind(self) -> tuple[str, frozenset[str]]:
        """The reason and the set of reasons in the message: what is left of a report without its numbers."""
        parts = re.split(r"[,:] ", self.message)
        return self.reason, frozenset(_NUMBER.sub("", part).strip(" .") for part in parts)

    def says(self, reason: str, message: str) -> bool:
        """Tell whether it makes the same condition."""
        return (self.reason, self.message) == (reason, message)


@dataclass(slots=True)
class _Told:
    newest: ConditionText
    written: ConditionText
    """The condition that the pod has, or is about to have."""
    written_at: float
    told_at: float
    """When the event was told."""
    is_false: bool
    """Whether the pod is known to have the condition, as false."""
    is_lost: bool = False
    """Whether the condition could not be written."""
    due: float = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether the condition is not what it should be."""
        return self.is_lost or not self.newest.says(self.written.reason, self.written.message)


class WaitingPods:
    """Keeps what each waiting pod says; the caller supplies the time (seconds, monotonic)."""

    def __init__(self) -> None:
        self._told: BoundedCache[str, _Told] = BoundedCache(_MOST_BYTES)
        self._timers: list[tuple[float, str]] = []

    def is_news(self, pod: Pod, reason: ConditionReason, message: str, now: float) -> bool:
        """Tell whether a pod has not been reported on in these words; what it says already is taken over."""
        told = self._told.get(pod.uid)
        if told is None:
            known = pod.scheduled_condition
            report = ConditionText(reason, message)
            if known is None or known.status != "False" or not report.says(known.reason, known.message):
                return True
            # The leader that wrote it told an event, too, nobody knows when.
            told_at = now - _TOLD_AGAIN + crc32(pod.uid.encode()) % _CAUGHT_UP
            self._keep(pod.uid, _Told(report, report, now - _NUMBERS_AT_MOST, told_at, is_false=True))
            return False
        return told.is_lost or not told.newest.says(reason, message)

    def report(self, pod: Pod, report: ConditionText, now: float) -> bool:
        """Take in why a pod waits; return whether it is to be written now, and not later or never."""
        told = self._told.get(pod.uid)
        if told is None:
            known = pod.scheduled_condition
            is_false = known is not None and known.status == "False"
            self._keep(pod.uid, _Told(report, report, now, now, is_false))
            return True
        told.newest = report
        self._weigh(pod.uid, told)
        if not told.is_lost and report.kind == told.written.kind and now < told.written_at + _NUMBERS_AT_MOST:
            self._set_timer(pod.uid, told)
            return False
        self._write(pod.uid, told, now)
        return True

    def due(self, now: float, most: int) -> list[str]:
        """Return pods of which something has to be written now, at most so many; :meth:`catch_up` follows for each."""
        found: list[str] = []
        while self._timers and self._timers[0][0] <= now and len(found) < most:
            due, uid = heapq.heappop(self._timers)
            told = self._told.get(uid)
            if told is not None and told.due == due:
                told.due = 0.0  # what is left of the same time in the heap means nothing
                found.append(uid)
        return found

    def catch_up(self, uid: str, now: float) -> tuple[ConditionText, bool] | None:
        """Return what a pod that is due has to say, and whether its condition has to as well; None if it is silent."""
        told = self._told.get(uid)
        if told is None:
            return None
        is_behind = told.is_behind
        if is_behind:
            self._write(uid, told, now)
        else:
            told.told_at = now
            self._set_timer(uid, told)
        return told.newest, is_behind

    def written(self, uid: str, report: ConditionText) -> bool:
        """Tell whether a report is still the one that a pod is to have as its condition."""
        told = self._told.get(uid)
        return told is not None and told.written.says(report.reason, report.message)

    def is_false(self, uid: str) -> bool:
        """Tell whether a pod is known to have the condition already, so that writing it again is no transition."""
        told = self._told.get(uid)
        return told is not None and told.is_false

    def was_written(self, uid: str) -> None:
        """Take in that the API server has the condition of a pod."""
        told = self._told.get(uid)
        if told is not None:
            told.is_false = True

    def was_lost(self, uid: str, now: float) -> None:
        """Take in that the condition of a pod could not be written: it is news, and tried again after a minute."""
        told = self._told.get(uid)
        if told is not None:
            told.is_lost, told.written_at = True, now
            self._set_timer(uid, told)

    def forget(self, uid: str) -> None:
        """Forget a pod that does not wait any more."""
        self._told.pop(uid)

    def __len__(self) -> int:
        return len(self._told)

    def _write(self, uid: str, told: _Told, now: float) -> None:
        told.written, told.written_at, told.told_at, told.is_lost = told.newest, now, now, False
        self._set_timer(uid, told)

    def _keep(self, uid: str, told: _Told) -> None:
        self._weigh(uid, told)
        self._set_timer(uid, told)

    def _weigh(self, uid: str, told: _Told) -> None:
        words = bytes_of(told.newest) + (0 if told.written is told.newest else bytes_of(told.written))
        self._told.put(uid, told, _PER_POD + bytes_of(uid) + words)

    def _set_timer(self, uid: str, told: _Told) -> None:
        due = told.written_at + _NUMBERS_AT_MOST if told.is_behind else told.told_at + _TOLD_AGAIN
        if due != told.due:
            told.due = due
            heapq.heappush(self._timers, (due, uid))
            if len(self._timers) > 2 * len(self._told) + _IDLE_TIMERS:
                self._drop_idle_timers()

    def _drop_idle_timers(self) -> None:
        """Forget the timers of pods that are forgotten, and those that were set anew."""
        self._timers = [(told.due, uid) for uid, told in self._told.items() if told.due]
        heapq.heapify(self._timers)
