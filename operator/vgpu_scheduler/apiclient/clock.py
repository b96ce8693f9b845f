"""Time, so that tests can hold it, and what waits for a time at most."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol


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
