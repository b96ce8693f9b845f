"""Has the doctor examine the cluster once a minute at most, while somebody looks at the results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.doctor import DoctorInput, Report, examine
from vgpu_scheduler.reading import UnauthorizedError
from vgpu_scheduler.ui.polling import Poller

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[DoctorInput]]


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """The result of an examination.

    Attributes
    ----------
    at
        The time of day of the examination.
    report
        The doctor's report; None if the cluster could not be read.
    trouble
        Why the cluster could not be read; empty if it could.
    """

    at: datetime
    report: Report | None
    trouble: str = ""


class DoctorPoller(Poller[DoctorResult]):
    """Holds the doctor's last result.

    Parameters
    ----------
    look
        Reads the input of the checks.
    tell
        Awaited when there is a new result.
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
        except Exception as error:  # whatever fails, the page has more to show than this
            log.exception("the doctor could not read the cluster")
            trouble = f"{type(error).__name__}: {error}"
        return DoctorResult(datetime.now(UTC), report, trouble)
