"""How objects are watched: one request, for how long, and how long to wait before the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from vgpu_scheduler.apiclient.client import ApiClient

__all__ = ["WatchBackoff", "watch"]

_WATCH_SECONDS: Final = 290
_IDLE_TIMEOUT: Final = 120.0
"""Seconds without a byte, bookmarks included, after which the connection counts as dead."""
_SHORTEST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 10.0


def watch(
    api: ApiClient, path: str, version: str, fields: str = ""
) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Open a watch, with bookmarks, and give its lines.

    Parameters
    ----------
    version
        The resource version that it begins after.
    fields
        A field selector; all objects without it.

    Raises
    ------
    ApiError
        If the API server refuses the watch.
    ApiUnreachableError
        If the connection fails or says nothing for two minutes.
    """
    params = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(_WATCH_SECONDS),
    }
    return api.stream(path, params | ({"fieldSelector": fields} if fields else {}), _IDLE_TIMEOUT)


class WatchBackoff:
    """The pause before the next list or watch: it doubles with each, from 0.2 to 10 seconds."""

    def __init__(self) -> None:
        self._delay = _SHORTEST_DELAY

    def reset(self) -> None:
        """Begin with the shortest pause again, for something came."""
        self._delay = _SHORTEST_DELAY

    async def wait(self, retry_after: float | None = None) -> None:
        """Wait as long as it is, or as long as the API server has said."""
        await asyncio.sleep(retry_after or self._delay)
        self._delay = min(2 * self._delay, _LONGEST_DELAY)
