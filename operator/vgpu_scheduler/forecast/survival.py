"""The Kaplan-Meier estimate of durations, some of which are censored, and draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray


class Survival:
    """The fraction of durations that exceed a time.

    Parameters
    ----------
    seconds
        How long each was observed, from its beginning: a duration, or the age so far; shape (n,).
    ended
        Whether each ended then; otherwise it is censored, and was longer.
    entered
        The age at which observation of each began (left truncation). 0 for all if None.

    Attributes
    ----------
    ended
        The number of uncensored durations.
    """

    def __init__(self, seconds: Sequence[float], ended: Sequence[bool], entered: Sequence[float] | None = None) -> None:
        watched = np.asarray(seconds, dtype=np.float64)
        is_ended = np.asarray(ended, dtype=np.bool_)
        since = np.zeros_like(watched) if entered is None else np.asarray(entered, dtype=np.float64)
        self.ended = int(is_ended.sum())
        self._watched = np.sort(watched)
        self._times, deaths = np.unique(watched[is_ended], return_counts=True)
        left = len(watched) - np.searchsorted(self._watched, self._times, side="left")
        at_risk = left - (len(since) - np.searchsorted(np.sort(since), self._times, side="left"))
        self._parts = np.cumprod(1.0 - deaths / self._not_all(at_risk, deaths, left))

    @staticmethod
    def _not_all(at_risk: NDArray[np.int64], deaths: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number at risk; one more if all of few ended early, though others are known to last longer."""
        ends_too_soon = (at_risk <= deaths) & (left > deaths)
        return np.maximum(at_risk, deaths) + ends_too_soon

    def outlived(self, age: float) -> int:
        """Return the number of durations known to exceed an age."""
        return len(self._watched) - int(np.searchsorted(self._watched, age, side="right"))

    def after(self, age: float) -> float:
        """Return the fraction of durations that exceed an age."""
        place = int(np.searchsorted(self._times, age, side="right"))
        return 1.0 if place == 0 else float(self._parts[place - 1])

    def rest(self, age: float, chance: float) -> float:
        """Return the remaining duration at an age.

        Parameters
        ----------
        chance
            The fraction that lasts longer, from 0 to 1; a uniform draw of it yields a draw of durations.

        Returns
        -------
        float
            Seconds; infinity if that exceeds all known ends.
        """
        wanted = self.after(age) * chance
        place = int(np.searchsorted(-self._parts, -wanted, side="left"))
        place = max(place, int(np.searchsorted(self._times, age, side="right")))
        return float(self._times[place] - age) if place < len(self._times) else inf
