"""Has the doctor look at the cluster now and then, while somebody looks at what it finds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.doctor import ClusterSnapshot, Report, examine
from vgpu_scheduler.reading import UnauthorizedError

log = logging.getLogger(__name__)

_EVERY: Final = 60.0
"""Seconds between two looks."""
Look = Callable[[], Awaitable[ClusterSnapshot]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a look has found.

    Attributes
    ----------
    at
        The time of day.
    report
        None where it could not look.
    trouble
        Why it could not look; empty where it could.
    """

    at: datetime
    report: Report | None
    trouble: str = ""


class Checkup:
    """What was found last.

    Parameters
    ----------
    look
        Reads what the checks need.
    tell
        Is awaited when something else was found.
    """

    def __init__(self, look: Look, tell: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._tell = tell
        self._not_before = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._found: Found | None = None

    def latest(self) -> Found | None:
        """Return what was found last; None before the first look has ended. Where that is old, another look begins."""
        if self._looking is None and time.monotonic() >= self._not_before:
            self._looking = asyncio.create_task(self._look_again())
        return self._found

    async def _look_again(self) -> None:
        try:
            self._found = await self._looked()
        finally:
            self._not_before = time.monotonic() + _EVERY
            self._looking = None
        await self._tell()

    async def _looked(self) -> Found:
        report, trouble = None, ""
        try:
            seen = await self._look()
            report = await asyncio.to_thread(examine, seen)
        except (ApiUnreachableError, UnauthorizedError) as error:
            trouble = str(error)
        except Exception as error:  # whatever it is, the page has more to show than this
            log.exception("the doctor could not look at the cluster")
            trouble = f"{type(error).__name__}: {error}"
        return Found(datetime.now(UTC), report, trouble)

    def close(self) -> None:
        """End a look that is under way."""
        if self._looking is not None:
            self._looking.cancel()
