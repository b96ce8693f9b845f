"""Refreshes a value that is expensive to compute: once a minute at most, and only while somebody reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

_EVERY: Final = 60.0
"""Seconds between two refreshes."""
_Found = TypeVar("_Found")


class Poller(Generic[_Found]):
    """Holds the value that was computed last.

    Parameters
    ----------
    find
        Computes the value; errors are part of its result.
    tell
        Awaited when there is a new value.
    """

    def __init__(self, find: Callable[[], Awaitable[_Found]], tell: Callable[[], Awaitable[None]]) -> None:
        self._find = find
        self._tell = tell
        self._not_before = 0.0
        self._finding: asyncio.Task[None] | None = None
        self._found: _Found | None = None

    def latest(self) -> _Found | None:
        """Return the last value, None if there is none yet; start a refresh if it is old."""
        if self._finding is None and time.monotonic() >= self._not_before:
            self._finding = asyncio.create_task(self._find_again())
        return self._found

    async def _find_again(self) -> None:
        try:
            self._found = await self._find()
        finally:
            self._not_before = time.monotonic() + _EVERY
            self._finding = None
        await self._tell()

    def close(self) -> None:
        """Cancel a refresh in progress."""
        if self._finding is not None:
            self._finding.cancel()
