"""Watches: the request, its timeouts, and the pauses between two of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from vgpu_scheduler.apiclient.client import ApiClient
from vgpu_scheduler.apiclient.clock import Backoff

_WATCH_SECONDS: Final = 290
_IDLE_TIMEOUT: Final = 120.0
"""Seconds without a byte (bookmarks count) after which the connection is dead."""
_SHORTEST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 10.0


def watch(
    api: ApiClient, path: str, version: str, fields: str = ""
) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Open a watch with bookmarks, and yield its lines.

    Parameters
    ----------
    version
        The resource version to start after.
    fields
        A field selector; empty for all objects.

    Raises
    ------
    ApiError
        If the API server refuses the watch.
    ApiUnreachableError
        If the connection fails or is silent for two minutes.
    """
    params = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(_WATCH_SECONDS),
    }
    return api.stream(path, params | ({"fieldSelector": fields} if fields else {}), _IDLE_TIMEOUT)


def watch_backoff() -> Backoff:
    """Return the back-off between lists and watches, from 0.2 to 10 seconds."""
    return Backoff(_SHORTEST_DELAY, _LONGEST_DELAY)
