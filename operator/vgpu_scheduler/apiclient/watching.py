"""How objects are watched: one request, for how long, and how long to wait before the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from vgpu_scheduler.apiclient.client import ApiClient
from vgpu_scheduler.apiclient.clock import Backoff

__all__ = ["watch", "watch_backoff"]

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


def watch_backoff() -> Backoff:
    """Return the pauses before the next list or watch, from 0.2 to 10 seconds."""
    return Backoff(_SHORTEST_DELAY, _LONGEST_DELAY)
