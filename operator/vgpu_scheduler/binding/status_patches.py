"""Keeps the status of objects current: the patches, which objects were patched recently, and the loop."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiResponse, Backoff, Clock, errors_logged
from vgpu_scheduler.binding.leased_writes import LeasedWriter
from vgpu_scheduler.model import BoundedCache

log = logging.getLogger(__name__)

_PACE = 1.0
"""Seconds between two checks for changes, and before the first repetition of a failed write."""

_RECENT = 60.0
"""Seconds between two writes of a status in which only a message or a number has changed."""
_MOST_BYTES = 2**20
"""Memory limit of the times of the last writes; forgetting a time causes one needless write."""
_TIME = 200
"""Bytes of one time."""


class StatusPatcher:
    """Patches the status of objects.

    Parameters
    ----------
    writer
        Sends the patches.
    timeout
        Seconds that the API server may take for a patch.
    """

    def __init__(self, writer: LeasedWriter, timeout: float) -> None:
        self._writer = writer
        self._timeout = timeout

    async def patch(
        self,
        path: str,
        uid: str,
        status: Mapping[str, Any],
        content_type: str = STRATEGIC_PATCH,
        *,
        version: int | None = None,
        seconds: float | None = None,
    ) -> ApiResponse | None:
        """Patch the status of the object at a path, and return the answer; None if the lease may be lost.

        Parameters
        ----------
        uid
            The UID of the object; a later object of the same name refuses the patch.
        version
            The resource version of the object, in which alone it takes the patch; None for any.
        seconds
            The time limit of this patch; None for that of all patches.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        metadata = {"uid": uid, **({} if version is None else {"resourceVersion": str(version)})}
        return await self._writer.request_within_lease(
            "PATCH",
            f"{path}/status",
            {"metadata": metadata, "status": status},
            self._timeout if seconds is None else seconds,
            content_type,
        )


class RecentPatches:
    """The objects whose status was patched within the last minute.

    Parameters
    ----------
    clock
        For the times of the patches.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patched: BoundedCache[str, float] = BoundedCache(_MOST_BYTES)
        """When each object was last patched (monotonic seconds), by UID."""

    def note(self, uid: str) -> None:
        """Note that the status of an object was patched now."""
        self._patched.put(uid, self._clock.monotonic(), _TIME)

    def __contains__(self, uid: str) -> bool:
        patched = self._patched.get(uid)
        return patched is not None and self._clock.monotonic() - patched < _RECENT


class StatusWriter(ABC):
    """Keeps the status of objects of some kind current; for the leader only.

    Attributes
    ----------
    what
        What is written, for logs.
    """

    what: ClassVar[str]

    async def run(self) -> None:
        """Write changed statuses, until cancelled."""
        complete, again = True, Backoff(_PACE)
        while True:
            if not complete or self.is_due():
                complete = False
                with errors_logged(log, self.what):
                    complete = await self.write()
            if complete:
                again.reset()
                await asyncio.sleep(_PACE)
            else:
                await again.sleep()

    def is_due(self) -> bool:
        """Tell whether to look for changes; called once a second while all writes are done."""
        return True

    @abstractmethod
    async def write(self) -> bool:
        """Write each status that has changed; return whether all due writes are done.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
