"""What would have become of the same arrivals under this scheduler: within an hour of each other, and all the time.

Two worlds drift apart once one pod is placed otherwise. So each answer names its horizon: it begins with the cluster as
it was, and from there on the arrivals are those of the record, while placements are this scheduler's own, and pods
leave as long after they are placed as they did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any, Final

import msgspec
import numpy as np

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Event,
    History,
    ObjectsAtTime,
    PodLifetime,
    Series,
    as_bound,
    replay,
)
from vgpu_scheduler.history.comparing import bounds
from vgpu_scheduler.history.statistics import integrals
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.world.changes import POD

HOUR: Final = 3600.0
_MOST_HOURS: Final = 48
_SAMPLES: Final = 1000
_FEWEST_BLOCKS: Final = 6
"""With fewer of them, what is drawn anew says nothing of what was not seen."""


@dataclass(frozen=True, slots=True)
class HourOfHistory(History):
    """A part of a history whose pods stay as long as they did in the whole of it.

    Attributes
    ----------
    lifetimes
        Of the pods that arrive or wait in it, by UID.
    """

    lifetimes: Mapping[str, PodLifetime]

    def stays(self) -> dict[str, PodLifetime]:
        """Return when each pod was placed, and when it departed, be it after this part; by UID."""
        return dict(self.lifetimes)


class Interval(msgspec.Struct, frozen=True):
    """A mean, and between which values it lies in 90 of 100 samples drawn anew; None where too little was seen."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Horizon:
    """What came of a horizon, beside what happened.

    Attributes
    ----------
    name
        ``one hour`` or ``the whole time``.
    pods
        How many pods are compared: for the whole time each once, over however many watches it was seen; for one hour
        one that waits for several hours counts in each.
    blocks
        In how many hours they arrived.
    waited, would_wait
        Seconds that they waited on average, and would have waited.
    saved
        The difference of the two, with its interval; more is better.
    given, would_be_given
        Cards that were given out on average, and would have been.
    placed, would_be_placed
        Of the pods, those that were placed within the horizon, and would have been.
    """

    name: str
    pods: int
    blocks: int
    waited: float
    would_wait: float
    saved: Interval
    given: float
    would_be_given: float
    placed: int
    would_be_placed: int

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


@dataclass(slots=True)
class _ComparedPod:
    """A pod of a horizon, and what came of it.

    Attributes
    ----------
    block
        The hour in which it arrived.
    waited, would_wait
        For how many seconds.
    placed, would_be_placed
        Whether it was.
    """

    block: int
    waited: float = 0.0
    would_wait: float = 0.0
    placed: bool = False
    would_be_placed: bool = False


def whole_time(histories: Sequence[History], options: EngineOptions, seed: int = 0) -> Horizon | None:
    """Replay all from the beginning; None where no pod arrived."""
    return _horizon("the whole time", histories, _whole, options, seed, once=True)


def one_hour(histories: Sequence[History], options: EngineOptions, seed: int = 0) -> Horizon | None:
    """Replay hours from the cluster as it was when each began; None where no pod arrived or waited.

    Of more than 48 hours, 48 are replayed that are as far from each other as they can be.
    """
    return _horizon("one hour", histories, some_hours, options, seed)


def _whole(histories: Sequence[History]) -> list[list[History]]:
    return [[history] for history in histories]


def some_hours(histories: Sequence[History]) -> list[Iterator[HourOfHistory]]:
    """Return of each history the hours that are replayed: of all together, no more than 48, one at a time."""
    total = sum(1 for history in histories for _ in hours(history))
    chosen = set(np.linspace(0, total - 1, min(total, _MOST_HOURS)).astype(int).tolist())
    numbers = count()
    return [(hour.history() for hour in hours(history) if next(numbers) in chosen) for history in histories]


def _horizon(
    name: str,
    histories: Sequence[History],
    parts: Callable[[Sequence[History]], Sequence[Iterable[History]]],
    options: EngineOptions,
    seed: int,
    *,
    once: bool = False,
) -> Horizon | None:
    """Return what came of a horizon; None where no pod arrived or waited.

    Parameters
    ----------
    once
        Whether a pod counts once in all parts together: the times that it waits in them add up.
    """
    options = replace(options, coexist_with=sorted({*options.coexist_with} - {*options.scheduler_names}))
    compared: dict[Hashable, _ComparedPod] = {}
    block = 0
    given: list[tuple[float, ...]] = []  # seconds, cards that were given out, and would have been
    for history, some in zip(histories, parts(histories), strict=True):
        theirs = replay(with_placements_as_arrivals(history), options).series
        arrived = {event.pod.uid for event in (*history.first, *history.events) if isinstance(event, Arrived)}
        for part in some:
            ours, stays = replay(part, options), part.stays()
            for course in ours.pods:
                if course.uid not in arrived:
                    continue  # it waits for this scheduler, not for the one that is watched
                stay = stays.get(course.uid, PodLifetime())
                end = min(next(time for time in (stay.placed, stay.departed, inf) if time is not None), part.ended)
                pod = compared.setdefault(
                    course.uid if once else len(compared),
                    _ComparedPod(block + int((course.arrived - part.began) // HOUR)),
                )
                pod.waited += end - course.arrived
                pod.would_wait += course.waited
                pod.placed |= stay.placed is not None and stay.placed <= part.ended
                pod.would_be_placed |= course.started is not None
            block += 1 + int((part.ended - part.began) // HOUR)
            cards = (_given(each, part.began, part.ended) for each in (theirs, ours.series))
            given.append((part.ended - part.began, *cards))
    if not compared:
        return None
    pods = list(compared.values())
    blocks = np.array([pod.block for pod in pods])
    waited, would_wait = (np.array([getattr(pod, name) for pod in pods]) for name in ("waited", "would_wait"))
    weights = np.array(given)
    seconds = max(float(weights[:, 0].sum()), 1e-9)
    return Horizon(
        name=name,
        pods=len(pods),
        blocks=np.unique(blocks).size,
        waited=round(float(waited.mean()), 1),
        would_wait=round(float(would_wait.mean()), 1),
        saved=resampled(blocks, waited - would_wait, seed),
        given=round(float(weights[:, 0] @ weights[:, 1]) / seconds, 2),
        would_be_given=round(float(weights[:, 0] @ weights[:, 2]) / seconds, 2),
        placed=sum(pod.placed for pod in pods),
        would_be_placed=sum(pod.would_be_placed for pod in pods),
    )


def resampled(blocks: np.ndarray[Any, Any], values: np.ndarray[Any, Any], seed: int) -> Interval:
    """Return the mean of values, with the interval that comes of drawing blocks of them again and again."""
    _, where = np.unique(blocks, return_inverse=True)
    sums, counts = np.bincount(where, values), np.bincount(where)
    if sums.size < _FEWEST_BLOCKS:
        return Interval(round(float(values.mean()), 1))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(sums.size, size=(_SAMPLES, sums.size))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = bounds(means)
    return Interval(*(round(float(value), 1) for value in (values.mean(), low, high)))


def _given(series: Series, began: float, ended: float) -> float:
    """Return how many cards were given out on average, from one time to another."""
    edges = np.array([began, ended])
    seconds, given = (
        float(integrals(series.times, values, edges).sum()) for values in (np.ones_like(series.given), series.given)
    )
    return given / seconds if seconds > 0.0 else 0.0


def with_placements_as_arrivals(history: History) -> History:
    """Return a history in which nobody is left to be placed: pods come as they were placed."""
    waiting: dict[str, Pod] = {event.pod.uid: event.pod for event in history.first if isinstance(event, Arrived)}
    first = tuple(event for event in history.first if not isinstance(event, Arrived))
    events: list[Event] = []
    for event in history.events:
        if isinstance(event, Arrived):
            waiting[event.pod.uid] = event.pod
        elif isinstance(event, Decided):
            events.append(Changed(event.at, POD, as_bound(waiting.pop(event.uid), event)))
        elif not (isinstance(event, Changed) and isinstance(event.value, Pod) and event.value.uid in waiting):
            events.append(event)
    return replace(history, first=first, events=tuple(events))


@dataclass(frozen=True, slots=True)
class BusyHour:
    """An hour of a history in which a pod arrived or waited, until the next one is asked for.

    Attributes
    ----------
    there
        The cluster as it was when the hour began.
    stays
        Of the pods of all hours, by UID.
    """

    began: float
    ended: float
    events: tuple[Event, ...]
    there: ObjectsAtTime
    stays: Mapping[str, PodLifetime]

    def history(self) -> HourOfHistory:
        """Return it as a history, which holds the whole cluster."""
        first = self.there.first(self.began)
        uids = (event.pod.uid for event in (*first, *self.events) if isinstance(event, Arrived))
        lifetimes = {uid: self.stays[uid] for uid in uids if uid in self.stays}
        return HourOfHistory(self.began, self.ended, first, self.events, lifetimes)


def hours(history: History) -> Iterator[BusyHour]:
    """Yield each hour of a history in which a pod arrived or waited."""
    there, stays = ObjectsAtTime(), history.stays()
    for known in history.first:
        there.take(known)
    began, at = history.began, 0
    while began < history.ended:
        ended = min(began + HOUR, history.ended)
        end = bisect_right(history.events, ended, at, key=_time)
        events = history.events[at:end]
        is_busy = any(isinstance(event, Arrived) for event in events)
        if is_busy or not all(pod.node_name for pod in there.pods.values()):
            yield BusyHour(began, ended, events, there, stays)
        for event in events:
            there.take(event)
        began, at = ended, end


def _time(event: Event) -> float:
    return event.at
