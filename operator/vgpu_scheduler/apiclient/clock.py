"""Clocks, which tests can replace, and waiting with a limit."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

_LONGEST: Final = 12
"""The longest pause of a back-off by default, as a multiple of its first pause."""


class Clock(Protocol):
    """Two clocks: one for durations, one for time stamps."""

    def monotonic(self) -> float:
        """Return seconds since some point in the past."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds since some point in the past."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)


def unix_ahead(clock: Clock) -> float:
    """Return the offset of the time since 1970 to the monotonic clock, in seconds; it changes when the clock is set."""
    return clock.now().timestamp() - clock.monotonic()


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, but no longer than that many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # wait_for may lose cancellations before Python 3.12
            await event.wait()


class Backoff:
    """An exponential back-off between polls: each pause is twice the one before, up to a limit, until it is reset.

    Parameters
    ----------
    interval
        Seconds of the first pause, also after a reset.
    longest
        Seconds of the longest pause; by default twelve times the first.

    Attributes
    ----------
    pause
        Seconds of the next pause.
    """

    def __init__(self, interval: float, longest: float | None = None) -> None:
        self._interval = self.pause = interval
        self._longest = _LONGEST * interval if longest is None else longest

    def reset(self) -> None:
        """Start again with the first pause, after progress."""
        self.pause = self._interval

    async def sleep(self, at_least: float | None = None) -> None:
        """Sleep for the pause, and no less than the given seconds; the next pause is longer.

        API servers ask for a pause of one second with every refusal, so what they ask for does not end the back-off.
        """
        await asyncio.sleep(max(self.pause, at_least or 0.0))
        self._grow()

    async def wait(self, changed: asyncio.Event) -> bool:
        """Wait until an event is set, for one pause at most; return whether it was set."""
        await wait_for_event(changed, self.pause)
        heard = changed.is_set()
        if heard:
            self.reset()
        else:
            self._grow()
        return heard

    def _grow(self) -> None:
        self.pause = min(2 * self.pause, self._longest)
