"""Patches the status of objects, and knows which were patched recently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiResponse, Clock
from vgpu_scheduler.binding.leased_writes import LeasedWriter
from vgpu_scheduler.model import BoundedCache

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
    clock
        For the times of the writes.
    timeout
        Seconds that the API server may take for a patch.
    """

    def __init__(self, writer: LeasedWriter, clock: Clock, timeout: float) -> None:
        self._writer = writer
        self._clock = clock
        self._timeout = timeout
        self._patched: BoundedCache[str, float] = BoundedCache(_MOST_BYTES)
        """When each object was last patched (monotonic seconds), by UID."""

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
        response = await self._writer.request_within_lease(
            "PATCH",
            f"{path}/status",
            {"metadata": metadata, "status": status},
            self._timeout if seconds is None else seconds,
            content_type,
        )
        if response is None:
            return None
        if response.ok:
            self._patched.put(uid, self._clock.monotonic(), _TIME)
        return response

    def is_recent(self, uid: str) -> bool:
        """Tell whether the status of an object was patched within the last minute."""
        patched = self._patched.get(uid)
        return patched is not None and self._clock.monotonic() - patched < _RECENT
