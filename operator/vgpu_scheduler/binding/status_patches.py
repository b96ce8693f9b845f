"""Patches the status of objects, and knows which were patched recently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiClient, ApiResponse, Clock
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
    api
        The API server.
    clock
        For the times of the writes.
    may_write
        Tells whether the lease will still be held in so many seconds; asked right before each write.
    timeout
        Seconds that the API server may take for an answer.
    """

    def __init__(self, api: ApiClient, clock: Clock, may_write: Callable[[float], bool], timeout: float) -> None:
        self._api = api
        self._clock = clock
        self._may_write = may_write
        self._timeout = timeout
        self._patched: BoundedCache[str, float] = BoundedCache(_MOST_BYTES)
        """When each object was last patched (monotonic seconds), by UID."""

    async def patch(
        self, path: str, uid: str, status: Mapping[str, Any], content_type: str = STRATEGIC_PATCH
    ) -> ApiResponse | None:
        """Patch the status of the object at a path, and return the answer; None if the lease may be lost.

        Parameters
        ----------
        uid
            The UID of the object; a later object of the same name refuses the patch.

        Raises
        ------
        ApiUnreachableError
            If the API server does not answer.
        """
        if not self._may_write(self._timeout):
            return None
        body = {"metadata": {"uid": uid}, "status": status}
        response = await self._api.request(
            "PATCH", f"{path}/status", body, content_type=content_type, timeout=self._timeout
        )
        if response.ok:
            self._patched.put(uid, self._clock.monotonic(), _TIME)
        return response

    def is_recent(self, uid: str) -> bool:
        """Tell whether the status of an object was patched within the last minute."""
        patched = self._patched.get(uid)
        return patched is not None and self._clock.monotonic() - patched < _RECENT
