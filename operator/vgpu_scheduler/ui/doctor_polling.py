"""Has the doctor look at the cluster now and then, while somebody looks at what it finds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.doctor import ClusterSnapshot, Report, examine
from vgpu_scheduler.reading import UnauthorizedError
from vgpu_scheduler.ui.polling import Poller

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[ClusterSnapshot]]


@dataclass(frozen=True, slots=True)
class DoctorResult:
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


class DoctorPoller(Poller[DoctorResult]):
    """What was found last.

    Parameters
    ----------
    look
        Reads what the checks need.
    tell
        Is awaited when something else was found.
    """

    def __init__(self, look: Look, tell: Callable[[], Awaitable[None]]) -> None:
        super().__init__(self._looked, tell)
        self._look = look

    async def _looked(self) -> DoctorResult:
        report, trouble = None, ""
        try:
            seen = await self._look()
            report = await asyncio.to_thread(examine, seen)
        except (ApiUnreachableError, UnauthorizedError) as error:
            trouble = str(error)
        except Exception as error:  # whatever it is, the page has more to show than this
            log.exception("the doctor could not look at the cluster")
            trouble = f"{type(error).__name__}: {error}"
        return DoctorResult(datetime.now(UTC), report, trouble)
