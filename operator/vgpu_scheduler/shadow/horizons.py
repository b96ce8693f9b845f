"""Replay the arrivals of another scheduler's pods with this one, over one hour at a time and over the whole time.

The two clusters diverge once a pod is placed differently. So each result names its horizon: the replay begins with the
recorded state, and from there on uses the recorded arrivals and durations with this scheduler's own placements.
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
    History,
    HistoryEvent,
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
"""The least number of blocks for resampling; with fewer, an interval would be meaningless."""


@dataclass(frozen=True, slots=True)
class HourOfHistory(History):
    """A part of a history whose pods keep the durations of the whole history.

    Attributes
    ----------
    lifetimes
        Those of the pods that arrive or wait in this part, by UID.
    """

    lifetimes: Mapping[str, PodLifetime]

    def pod_lifetimes(self) -> dict[str, PodLifetime]:
        """Return when each pod was placed and departed, even if after this part, by UID."""
        return dict(self.lifetimes)


class Interval(msgspec.Struct, frozen=True):
    """A mean with its 90 percent interval from resampling; the bounds are None if there is too little data."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Horizon:
    """The result of a horizon, compared with what happened.

    Attributes
    ----------
    name
        ``one hour`` or ``the whole time``.
    pods
        The number of compared pods. Over the whole time, a pod counts once across all watches; over one hour, a pod
        that waits for several hours counts in each.
    blocks
        The number of hours in which they arrived.
    waited, would_wait
        The mean wait in seconds, as recorded and as replayed.
    saved
        The difference of the two, with its interval; higher is better.
    allocated, would_be_allocated
        The mean number of allocated cards, as recorded and as replayed.
    placed, would_be_placed
        The number of pods placed within the horizon, as recorded and as replayed.
    """

    name: str
    pods: int
    blocks: int
    waited: float
    would_wait: float
    saved: Interval
    allocated: float
    would_be_allocated: float
    placed: int
    would_be_placed: int

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


@dataclass(slots=True)
class _ComparedPod:
    """The outcome for one pod of a horizon.

    Attributes
    ----------
    block
        The hour in which it arrived.
    waited, would_wait
        The wait in seconds, as recorded and as replayed.
    placed, would_be_placed
        Whether it was placed, as recorded and as replayed.
    """

    block: int
    waited: float = 0.0
    would_wait: float = 0.0
    placed: bool = False
    would_be_placed: bool = False


def whole_time(histories: Sequence[History], options: EngineOptions) -> Horizon | None:
    """Replay everything from the beginning; None if no pod arrived."""
    return _horizon("the whole time", histories, _whole, options, once=True)


def one_hour(histories: Sequence[History], options: EngineOptions) -> Horizon | None:
    """Replay hours, each from the state at its beginning; None if no pod arrived or waited.

    If there are more than 48 hours, 48 evenly spaced ones are replayed.
    """
    return _horizon("one hour", histories, some_hours, options)


def _whole(histories: Sequence[History]) -> list[list[History]]:
    return [[history] for history in histories]


def some_hours(histories: Sequence[History]) -> list[Iterator[HourOfHistory]]:
    """Return, for each history, the hours to replay; at most 48 over all histories, generated one at a time."""
    total = sum(1 for history in histories for _ in hours(history))
    chosen = set(np.linspace(0, total - 1, min(total, _MOST_HOURS)).astype(int).tolist())
    numbers = count()
    return [(hour.history() for hour in hours(history) if next(numbers) in chosen) for history in histories]


def _horizon(
    name: str,
    histories: Sequence[History],
    parts: Callable[[Sequence[History]], Sequence[Iterable[History]]],
    options: EngineOptions,
    *,
    once: bool = False,
) -> Horizon | None:
    """Return the result of a horizon; None if no pod arrived or waited.

    Parameters
    ----------
    once
        Whether a pod counts once over all parts, with its waits added up.
    """
    options = replace(options, coexist_with=sorted({*options.coexist_with} - {*options.scheduler_names}))
    compared: dict[Hashable, _ComparedPod] = {}
    block = 0
    allocated: list[tuple[float, ...]] = []  # seconds, and allocated cards as recorded and as replayed
    for history, some in zip(histories, parts(histories), strict=True):
        theirs = replay(with_placements_as_arrivals(history), options).series
        arrived = {event.pod.uid for event in (*history.first, *history.events) if isinstance(event, Arrived)}
        for part in some:
            ours, lifetimes = replay(part, options), part.pod_lifetimes()
            for replayed in ours.pods:
                if replayed.uid not in arrived:
                    continue  # a pod of this scheduler, not of the watched one
                lifetime = lifetimes.get(replayed.uid, PodLifetime())
                end = min(
                    next(time for time in (lifetime.placed, lifetime.departed, inf) if time is not None), part.ended
                )
                pod = compared.setdefault(
                    replayed.uid if once else len(compared),
                    _ComparedPod(block + int((replayed.arrived - part.began) // HOUR)),
                )
                pod.waited += end - replayed.arrived
                pod.would_wait += replayed.waited
                pod.placed |= lifetime.placed is not None and lifetime.placed <= part.ended
                pod.would_be_placed |= replayed.started is not None
            block += 1 + int((part.ended - part.began) // HOUR)
            cards = (_mean_allocated(each, part.began, part.ended) for each in (theirs, ours.series))
            allocated.append((part.ended - part.began, *cards))
    if not compared:
        return None
    pods = list(compared.values())
    blocks = np.array([pod.block for pod in pods])
    waited, would_wait = (np.array([getattr(pod, name) for pod in pods]) for name in ("waited", "would_wait"))
    weights = np.array(allocated)
    seconds = max(float(weights[:, 0].sum()), 1e-9)
    return Horizon(
        name=name,
        pods=len(pods),
        blocks=np.unique(blocks).size,
        waited=round(float(waited.mean()), 1),
        would_wait=round(float(would_wait.mean()), 1),
        saved=resampled(blocks, waited - would_wait, seed=0),
        allocated=round(float(weights[:, 0] @ weights[:, 1]) / seconds, 2),
        would_be_allocated=round(float(weights[:, 0] @ weights[:, 2]) / seconds, 2),
        placed=sum(pod.placed for pod in pods),
        would_be_placed=sum(pod.would_be_placed for pod in pods),
    )


def resampled(blocks: np.ndarray[Any, Any], values: np.ndarray[Any, Any], seed: int) -> Interval:
    """Return the mean of values, with an interval from resampling their blocks."""
    _, where = np.unique(blocks, return_inverse=True)
    sums, counts = np.bincount(where, values), np.bincount(where)
    if sums.size < _FEWEST_BLOCKS:
        return Interval(round(float(values.mean()), 1))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(sums.size, size=(_SAMPLES, sums.size))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = bounds(means)
    return Interval(*(round(float(value), 1) for value in (values.mean(), low, high)))


def _mean_allocated(series: Series, began: float, ended: float) -> float:
    """Return the mean number of allocated cards in a period."""
    edges = np.array([began, ended])
    seconds, allocated = (
        float(integrals(series.times, values, edges).sum())
        for values in (np.ones_like(series.allocated), series.allocated)
    )
    return allocated / seconds if seconds > 0.0 else 0.0


def with_placements_as_arrivals(history: History) -> History:
    """Return a history without pending pods: each pod appears when it is placed, already bound."""
    waiting: dict[str, Pod] = {event.pod.uid: event.pod for event in history.first if isinstance(event, Arrived)}
    first = tuple(event for event in history.first if not isinstance(event, Arrived))
    events: list[HistoryEvent] = []
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
    """An hour of a history in which a pod arrived or waited; valid until the next one is generated.

    Attributes
    ----------
    there
        The state of the cluster at the beginning of the hour.
    lifetimes
        Those of the pods of the whole history, by UID.
    """

    began: float
    ended: float
    events: tuple[HistoryEvent, ...]
    there: ObjectsAtTime
    lifetimes: Mapping[str, PodLifetime]

    def history(self) -> HourOfHistory:
        """Return the hour as a history, with a copy of the cluster's state."""
        first = self.there.first(self.began)
        uids = (event.pod.uid for event in (*first, *self.events) if isinstance(event, Arrived))
        lifetimes = {uid: self.lifetimes[uid] for uid in uids if uid in self.lifetimes}
        return HourOfHistory(self.began, self.ended, first, self.events, lifetimes)


def hours(history: History) -> Iterator[BusyHour]:
    """Yield each hour of a history in which a pod arrived or waited."""
    there, lifetimes = ObjectsAtTime(), history.pod_lifetimes()
    for known in history.first:
        there.take(known)
    began, at = history.began, 0
    while began < history.ended:
        ended = min(began + HOUR, history.ended)
        end = bisect_right(history.events, ended, at, key=_time)
        events = history.events[at:end]
        is_busy = any(isinstance(event, Arrived) for event in events)
        if is_busy or not all(pod.node_name for pod in there.pods.values()):
            yield BusyHour(began, ended, events, there, lifetimes)
        for event in events:
            there.take(event)
        began, at = ended, end


def _time(event: HistoryEvent) -> float:
    return event.at
