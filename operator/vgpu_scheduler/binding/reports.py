"""Decides which events and conditions are written; sends nothing.

Repetitions of an event become a series, and events are limited per object. The numbers are those of client-go: a
repetition within 6 minutes of the last one joins its series, and a source may post 25 events about an object at once,
then one every 5 minutes.

While nothing changes, a waiting pod costs one event an hour: events expire, and ``kubectl describe`` must show a reason
at any time. :class:`WaitingPods` decides when to write a condition, and when to repeat an event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from sys import getsizeof
from zlib import crc32

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, ConditionReason, EventReason, KeyedHeap, TokenBucket, bytes_of

_WINDOW = 360.0
"""Seconds after which a repetition is a new event instead of part of the series."""
_REFRESH = 1800.0
"""Seconds after which the count of a continuing series is written, so that the event does not expire."""
_BURST = 25.0
"""Events about one object at once."""
_REFILL = 300.0
"""Seconds until one more event about the object is allowed."""
_SERIES_BYTES = 12 * 2**20
"""Memory limit of the known series: 4,000 of the longest events, or several times as many shorter ones."""
_BUCKETS_BYTES = 4 * 2**20
"""Memory limit of the token buckets of objects: about 5,000 objects."""
_RECORD = 100
"""Bytes of a record without its texts."""
_PER_ENTRY = 300
"""Bytes of a series without its event, or of a bucket without its object."""


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def bytes(self) -> int:
        """The approximate size in memory."""
        return _RECORD + sum(map(getsizeof, (self.kind, self.namespace, self.name, self.uid)))


@dataclass(frozen=True, slots=True)
class Event:
    """The content of an event without its times; events with equal content form one series.

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
        """The approximate size in memory."""
        return self.about.bytes + _RECORD + sum(map(getsizeof, (self.type, self.reason, self.action, self.note)))


@dataclass(frozen=True, slots=True)
class Occurrences:
    """An event to be written, with its times.

    Attributes
    ----------
    first, last
        When the event happened for the first and for the last time.
    count
        How often it happened: 1 for a new event, more for the series of a posted one.
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
    """The recent events; the caller supplies the time, as seconds (monotonic) and as the time of day."""

    def __init__(self) -> None:
        self._series: BoundedCache[Event, _Series] = BoundedCache(_SERIES_BYTES)
        """Ordered by the last occurrence."""
        self._buckets: BoundedCache[tuple[Regarding, str], TokenBucket] = BoundedCache(_BUCKETS_BYTES)
        self.limited = 0
        """How many events were not written because of the limit per object."""

    def happened(self, event: Event, now: float, time: datetime) -> Occurrences | None:
        """Count an occurrence of an event; return what to write now, or None.

        The first repetition is written as a series. Later ones are only counted; their count is written after half an
        hour, or returned by :meth:`finished`, which must be called first.
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
        """Drop the series without recent repetitions; return those whose last count is not written yet."""
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
"""Seconds between two writes of a condition in which only numbers change."""
_TOLD_AGAIN = 3300.0
"""Seconds after which an event is repeated; API servers keep events for an hour (``--event-ttl``)."""
_CAUGHT_UP = 300.0
"""Seconds over which a new leader spreads the repetition of events that an earlier leader wrote."""
_MOST_BYTES = 24 * 2**20
"""Memory limit of the reports on waiting pods: about 20,000 pods, some of which are gone for up to an hour."""
_PER_POD = 300
"""Bytes per pod without its texts."""
_MOST_IDLE_TIMERS = 1000
"""How many timers of pods whose reports were dropped for their memory are kept, beyond one for each report."""
_NUMBER = re.compile(r"(?<![\w./-])\d+(?:/\d+)?(?![\w/-]|\.\w)")


@dataclass(frozen=True, slots=True)
class ConditionText:
    """Why a pod waits.

    Attributes
    ----------
    reason, message
        The reason and message of the condition.
    note
        Text that the event adds to the message.
    """

    reason: ConditionReason
    message: str
    note: str = ""

    @property
    def text(self) -> str:
        """The text of the event."""
        return f"{self.message} {self.note}" if self.note else self.message

    @property
    def without_numbers(self) -> tuple[str, frozenset[str]]:
        """The reason, and the parts of the message as a set without their numbers.

        It is equal for reports that differ in numbers alone. It is computed from the text, because only the text is
        known of reports that an earlier leader wrote.
        """
        parts = re.split(r"[,:] ", self.message)
        return self.reason, frozenset(_NUMBER.sub("", part).strip(" .") for part in parts)

    def says(self, reason: str, message: str) -> bool:
        """Tell whether the condition would have this reason and message."""
        return (self.reason, self.message) == (reason, message)


@dataclass(slots=True)
class _Told:
    newest: ConditionText
    written: ConditionText
    """The condition that the pod has, or is about to have."""
    written_at: float
    told_at: float
    """When the event was last written."""
    is_false: bool
    """Whether the pod is known to have the condition, as false."""
    is_lost: bool = False
    """Whether the condition could not be written."""

    @property
    def is_behind(self) -> bool:
        """Whether the written condition is not the newest one."""
        return self.is_lost or not self.newest.says(self.written.reason, self.written.message)


class WaitingPods:
    """The reports on waiting pods; the caller supplies the time (seconds, monotonic)."""

    def __init__(self) -> None:
        self._told: BoundedCache[str, _Told] = BoundedCache(_MOST_BYTES)
        self._timers: KeyedHeap[str, float] = KeyedHeap()
        """When the next report on each pod is due."""

    def adopt_unless_new(self, pod: Pod, reason: ConditionReason, message: str, now: float) -> bool:
        """Adopt a condition on the pod with this reason and message; return True if there is none that says this."""
        told = self._told.get(pod.uid)
        if told is None:
            known = pod.scheduled_condition
            report = ConditionText(reason, message)
            if known is None or known.status != "False" or not report.says(known.reason, known.message):
                return True
            # An earlier leader wrote this condition and an event, at an unknown time.
            told_at = now - _TOLD_AGAIN + crc32(pod.uid.encode()) % _CAUGHT_UP
            self._keep(pod.uid, _Told(report, report, now - _NUMBERS_AT_MOST, told_at, is_false=True))
            return False
        return told.is_lost or not told.newest.says(reason, message)

    def report(self, pod: Pod, report: ConditionText, now: float) -> bool:
        """Record why a pod waits; return whether to write that now (else it is written later, if at all)."""
        told = self._told.get(pod.uid)
        if told is None:
            known = pod.scheduled_condition
            is_false = known is not None and known.status == "False"
            self._keep(pod.uid, _Told(report, report, now, now, is_false))
            return True
        told.newest = report
        self._weigh(pod.uid, told)
        if (
            not told.is_lost
            and report.without_numbers == told.written.without_numbers
            and now < told.written_at + _NUMBERS_AT_MOST
        ):
            self._set_timer(pod.uid, told)
            return False
        self._write(pod.uid, told, now)
        return True

    def due(self, now: float, most: int) -> list[str]:
        """Return at most ``most`` pods (UIDs) with a report due now; call :meth:`catch_up` for each."""
        found: list[str] = []
        while len(found) < most and (first := self._timers.peek()) is not None and first.rank <= now:
            self._timers.delete(first.key)
            if self._told.get(first.key) is not None:
                found.append(first.key)
        return found

    def catch_up(self, uid: str, now: float) -> tuple[ConditionText, bool] | None:
        """Return the report due for a pod, and whether its condition is due as well as its event; None if unknown."""
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
        """Tell whether a report is still the current condition of a pod."""
        told = self._told.get(uid)
        return told is not None and told.written.says(report.reason, report.message)

    def is_false(self, uid: str) -> bool:
        """Tell whether a pod is known to have the condition as false, so that writing it again is no transition."""
        told = self._told.get(uid)
        return told is not None and told.is_false

    def was_written(self, uid: str) -> None:
        """Record that the condition of a pod was written."""
        told = self._told.get(uid)
        if told is not None:
            told.is_false = True

    def was_lost(self, uid: str, now: float) -> None:
        """Record that the condition of a pod could not be written; it counts as news and is retried after a minute."""
        told = self._told.get(uid)
        if told is not None:
            told.is_lost, told.written_at = True, now
            self._set_timer(uid, told)

    def forget(self, uid: str) -> None:
        """Forget a pod that does not wait any more."""
        self._told.pop(uid)
        self._timers.delete(uid)

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
        self._timers.add_or_update(uid, due)
        if len(self._timers) > 2 * len(self._told) + _MOST_IDLE_TIMERS:
            told_of = {other for other, _ in self._told.items()}
            for idle in [other for other in self._timers if other not in told_of]:
                self._timers.delete(idle)
