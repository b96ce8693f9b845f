"""How long things last of which some still do: the estimate of Kaplan and Meier, and draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

__all__ = ["Survival"]


class Survival:
    """The part of lifetimes that are longer than a time.

    Parameters
    ----------
    seconds
        How long each was watched, from its beginning: a lifetime, or an age up to now; shape (n,).
    ended
        Whether it ended then; else all that is known is that it was longer.
    entered
        At what age each began to be watched: one that had ended before would not be known of. 0 for all if None.

    Attributes
    ----------
    ended
        Of how many the end is known.
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
        """Return how many were at risk; one more where all of few ended early, and others are known to last longer."""
        ends_too_soon = (at_risk <= deaths) & (left > deaths)
        return np.maximum(at_risk, deaths) + ends_too_soon

    def outlived(self, age: float) -> int:
        """Return how many are known to have been longer than an age."""
        return len(self._watched) - int(np.searchsorted(self._watched, age, side="right"))

    def after(self, age: float) -> float:
        """Return the part of all that is longer than an age."""
        place = int(np.searchsorted(self._times, age, side="right"))
        return 1.0 if place == 0 else float(self._parts[place - 1])

    def rest(self, age: float, chance: float) -> float:
        """Return how much longer one lasts that has reached an age.

        Parameters
        ----------
        chance
            The part of those that last longer, from 0 to 1; drawn evenly, the results are drawn as lifetimes are.

        Returns
        -------
        float
            Seconds; infinity where no end so late is known.
        """
        wanted = self.after(age) * chance
        place = int(np.searchsorted(-self._parts, -wanted, side="left"))
        place = max(place, int(np.searchsorted(self._times, age, side="right")))
        return float(self._times[place] - age) if place < len(self._times) else inf
