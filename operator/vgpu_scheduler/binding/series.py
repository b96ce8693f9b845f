"""Which events are written: repetitions become a series, and no object gets more than its share. Nothing is sent here.

The numbers are those of client-go: a repetition within 6 minutes of the last one joins it, and a source may post 25
events about an object at once, then one every 5 minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from sys import getsizeof

from vgpu_scheduler.model import BoundedCache, EventReason

__all__ = ["Event", "EventSeries", "Occurrences", "Regarding"]

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


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class EventSeries:
    """What was told lately; the caller supplies the time, as seconds (monotonic) and as the time of day."""

    def __init__(self) -> None:
        self._series: BoundedCache[Event, _Series] = BoundedCache(_SERIES_BYTES)
        """By when it happened last."""
        self._buckets: BoundedCache[tuple[Regarding, str], _Bucket] = BoundedCache(_BUCKETS_BYTES)
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
            bucket = _Bucket(_BURST, now)
            self._buckets.put(key, bucket, _PER_ENTRY + event.about.bytes)
        bucket.tokens, bucket.at = min(bucket.tokens + (now - bucket.at) / _REFILL, _BURST), now
        if bucket.tokens < 1:
            self.limited += 1
            return False
        bucket.tokens -= 1
        return True
