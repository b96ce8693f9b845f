"""What a history teaches of what may come: how long pods run and wait, and which come after each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from vgpu_scheduler.forecast.durations import Durations
from vgpu_scheduler.forecast.lifetimes import lifetimes_of
from vgpu_scheduler.history import Arrived, History, PodLifetime
from vgpu_scheduler.kube import Pod

__all__ = ["WorkloadHistory"]

_LOOKS_BACK: Final = 7 * 86400.0
"""Seconds of the end of a history from which arrivals are drawn: what was long ago comes less likely again."""
_LEAST_WAITS: Final = 5
"""How many pods have to have waited as long before it counts how much longer they did."""
_AT_ONCE: Final = 10.0
"""Seconds within which a pod is placed that need not wait for cards: a decision, and what clocks are off."""
_LEAST: Final = 3600.0
"""Seconds of a history of which the arrivals tell something."""


@dataclass(frozen=True, slots=True)
class FutureArrival:
    """A pod that may come.

    Attributes
    ----------
    after
        In how many seconds.
    runs
        How long it runs then; infinity where nobody can say that it ends.
    """

    after: float
    pod: Pod
    runs: float


class WorkloadHistory:
    """What a history teaches.

    Parameters
    ----------
    history
        Up to now.
    since
        From when on arrivals are known, where that is not from when it began.

    Attributes
    ----------
    durations
        How long pods run.
    """

    def __init__(self, history: History, since: float | None = None) -> None:
        self._lifetimes = lifetimes_of(history)
        self.durations = Durations(self._lifetimes.values())
        self._ended = history.ended
        self._began = max(history.began if since is None else since, history.ended - _LOOKS_BACK)
        found = {event.pod.uid: event for event in history.arrived if event.at >= self._began}
        self._arrived = sorted(found.values(), key=lambda event: event.at)
        self._waits = _waits(history, found.values())

    @property
    def per_second(self) -> float:
        """How many pods arrive, as far as that is known."""
        return len(self._arrived) / self._seconds if self._seconds >= _LEAST else 0.0

    def rest_of_waits(self, waited: float, count: int) -> list[float]:
        """Return how much longer pods waited, until they were placed, that had waited so long.

        Parameters
        ----------
        count
            How many values are returned, evenly from the shortest to the longest; none where too few are known.
        """
        longer = self._waits[bisect_right(self._waits, waited) :]
        if len(longer) < _LEAST_WAITS:
            return []
        return [longer[int((number + 0.5) / count * len(longer))] - waited for number in range(count)]

    @property
    def _seconds(self) -> float:
        return self._ended - self._began

    def draw(self, horizon: float, rng: np.random.Generator) -> Iterator[FutureArrival]:
        """Yield the pods that come, as they came from a time on that is drawn; after the end it goes on at the start.

        Parameters
        ----------
        horizon
            In so many seconds from now.
        """
        if not self.per_second:
            return
        begins = self._began + rng.random() * self._seconds
        number = bisect_left(self._arrived, begins, key=lambda event: event.at)
        round_, count = 0, 0
        while True:
            if number == len(self._arrived):
                number, round_ = 0, round_ + 1
            event = self._arrived[number]
            after = event.at + round_ * self._seconds - begins
            if after > horizon:
                return
            yield self._coming(event, after, count, rng)
            number, count = number + 1, count + 1

    def _coming(self, event: Arrived, after: float, number: int, rng: np.random.Generator) -> FutureArrival:
        pod = msgspec.structs.replace(
            event.pod.as_created(), uid=f"{event.pod.uid}~{number}", name=f"forecast-{number}"
        )
        known = self._lifetimes.get(event.pod.uid)
        if known is not None and known.ended:
            return FutureArrival(after, pod, known.seconds)
        age = 0.0 if known is None else known.seconds
        return FutureArrival(after, pod, age + self.durations.draw(event.pod, age, rng).seconds)


def _waits(history: History, arrived: Iterable[Arrived]) -> list[float]:
    """Return how long pods waited that were placed, but not as soon as they came; sorted.

    Of those that still wait the courses know more: were they among these, a queue that stands would tell of itself.
    """
    stays = history.stays()
    placed = ((event.at, stays.get(event.pod.uid, PodLifetime()).placed) for event in arrived)
    return sorted(at - came for came, at in placed if at is not None and at - came >= _AT_ONCE)
