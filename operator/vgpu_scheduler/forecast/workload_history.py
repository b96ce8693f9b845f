"""What a history tells about the future: durations and waits of pods, and the pattern of arrivals."""

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

_LOOKS_BACK: Final = 7 * 86400.0
"""The seconds at the end of a history from which arrivals are drawn; older arrivals are less typical."""
_LEAST_WAITS: Final = 5
"""The least number of pods that waited as long for their further waits to be used."""
_AT_ONCE: Final = 10.0
"""The seconds within which a pod is placed without waiting: the time of a decision, and clock skew."""
_LEAST: Final = 3600.0
"""The least duration in seconds of a history whose arrivals are used."""


@dataclass(frozen=True, slots=True)
class FutureArrival:
    """A possible arrival of a pod.

    Attributes
    ----------
    after
        The seconds until it arrives.
    runs
        How long it runs; infinity if its end is unknown.
    """

    after: float
    pod: Pod
    runs: float


class WorkloadHistory:
    """The durations, waits and arrivals of a history.

    Parameters
    ----------
    history
        The history up to now.
    since
        The time since which arrivals are complete, if not since the beginning.

    Attributes
    ----------
    durations
        The durations of pods.
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
        """The known rate of arrivals."""
        return len(self._arrived) / self._seconds if self._seconds >= _LEAST else 0.0

    def rest_of_waits(self, waited: float, count: int) -> list[float]:
        """Return a sample of the further waits of pods that had waited as long and were placed.

        Parameters
        ----------
        count
            The size of the sample, evenly from the shortest to the longest wait; it is empty if too few are known.
        """
        longer = self._waits[bisect_right(self._waits, waited) :]
        if len(longer) < _LEAST_WAITS:
            return []
        return [longer[int((number + 0.5) / count * len(longer))] - waited for number in range(count)]

    @property
    def _seconds(self) -> float:
        return self._ended - self._began

    def draw(self, horizon: float, rng: np.random.Generator) -> Iterator[FutureArrival]:
        """Yield the arrivals after a random time of the history, wrapping around at its end.

        Parameters
        ----------
        horizon
            The seconds from now to draw.
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
    """Return the waits of pods that were placed, but not at once, sorted.

    Pods that still wait are left out: the draws describe them better, and a stuck queue would count itself.
    """
    lifetimes = history.pod_lifetimes()
    placed = ((event.at, lifetimes.get(event.pod.uid, PodLifetime()).placed) for event in arrived)
    return sorted(at - came for came, at in placed if at is not None and at - came >= _AT_ONCE)
