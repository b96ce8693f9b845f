"""The times of what is seen: each names one look, also where it is printed."""

from __future__ import annotations

from math import ceil


class Clock:
    """Tells times in whole milliseconds, which reports print; none falls, be the clock of the machine set back.

    Parameters
    ----------
    since
        The last time that was told by an earlier one, in seconds since the epoch.
    """

    def __init__(self, since: float = 0.0) -> None:
        self._next = ceil(since * 1000)

    def change(self, now: float) -> float:
        """Return the time of a change: later than that of each look before it."""
        found = self._next = max(ceil(now * 1000), self._next)
        return found / 1000

    def look(self, now: float) -> float:
        """Return the time of a look: earlier changes have this time at most, and later ones a later time."""
        found = self.change(now)
        self._next += 1
        return found
