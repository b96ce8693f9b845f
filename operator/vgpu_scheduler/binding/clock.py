"""Time, so that tests can hold it."""

from __future__ import annotations

import time
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
