"""Time, so that tests can hold it, and what waits for a time at most."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

_LONGEST: Final = 12
"""Times the first pause, between two looks at something of which nothing is heard."""


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


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # wait_for loses cancellations before Python 3.12
            await event.wait()


class Backoff:
    """The pauses between looks at something: while nothing is heard each is twice the one before, up to a limit.

    Parameters
    ----------
    interval
        Seconds of the first pause, and of the one after something was heard.
    longest
        Seconds of the longest one; twelve times the first if it is not given.

    Attributes
    ----------
    pause
        Seconds of the next one.
    """

    def __init__(self, interval: float, longest: float | None = None) -> None:
        self._interval = self.pause = interval
        self._longest = _LONGEST * interval if longest is None else longest

    def reset(self) -> None:
        """Begin with the first pause again, for something was heard."""
        self.pause = self._interval

    async def sleep(self, seconds: float | None = None) -> None:
        """Wait for a pause, or for the seconds that are given; the next pause is longer."""
        await asyncio.sleep(seconds or self.pause)
        self._grow()

    async def wait(self, changed: asyncio.Event) -> bool:
        """Wait until an event is set, for a pause at most; return whether it was set."""
        await wait_for_event(changed, self.pause)
        heard = changed.is_set()
        if heard:
            self.reset()
        else:
            self._grow()
        return heard

    def _grow(self) -> None:
        self.pause = min(2 * self.pause, self._longest)
