"""Timestamps of changes and looks, in whole milliseconds, as reports print them."""

from __future__ import annotations

from math import ceil


class IncreasingClock:
    """Returns increasing times in whole milliseconds, even if the machine's clock is set back.

    Parameters
    ----------
    since
        The last time returned by an earlier instance, in seconds since the epoch.
    """

    def __init__(self, since: float = 0.0) -> None:
        self._next = ceil(since * 1000)

    def time_of_change(self, now: float) -> float:
        """Return the time of a change, which is later than that of any earlier look."""
        found = self._next = max(ceil(now * 1000), self._next)
        return found / 1000

    def time_of_look(self, now: float) -> float:
        """Return the time of a look, which no earlier change exceeds and every later change does."""
        found = self.time_of_change(now)
        self._next += 1
        return found
