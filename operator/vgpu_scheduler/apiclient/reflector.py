"""Keeps up with a collection as client-go's reflector does: one list, then watches that resume from its version.

An API server ends the watches of clients that fall behind. A watch then resumes from the last version that was
observed; the collection is listed again only if that version is too old.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Final, Protocol

from vgpu_scheduler.apiclient.client import ApiClient, ApiError, ApiUnreachableError
from vgpu_scheduler.apiclient.clock import Backoff
from vgpu_scheduler.kube import WatchStatus, decode_event, decode_identity

log = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 290
_IDLE_TIMEOUT: Final = 120.0
"""Seconds without a byte (bookmarks count) after which the connection is dead."""
_SHORTEST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 10.0
_ERROR: Final = b'{"type":"ERROR"'
_GONE: Final = frozenset((HTTPStatus.GONE, HTTPStatus.NOT_FOUND))
"""Answers to a watch after which only a list helps: the version is too old, or the CRD was deleted."""


class Reflected(Protocol):
    """The objects that a :class:`Reflector` keeps up to date."""

    async def list_all(self) -> str:
        """List all objects; return the version to watch from, empty if there is nothing to watch for now."""

    def opened(self) -> bool:
        """Note that a watch is open; return whether it may be followed, or False if all must be listed again."""

    def take(self, line: bytes) -> str:
        """Process an event, never an error; return its resource version, empty if it could not be read."""

    def failed(self, error: Exception) -> bool:
        """Note why a list or a watch failed; return whether a refused watch is given up until the next list.

        After an error that is not the API server's, and where the version is too old, all are listed again anyway.
        """


class Reflector:
    """Lists a collection and watches it.

    Parameters
    ----------
    path
        The path of the collection.
    reflected
        The objects.
    look_again
        Seconds until the next list while there is nothing to watch, or while the watch is forbidden.
    version
        The version of a list that was processed already, to watch from; empty if it found nothing to watch. None to
        list first.
    fields
        A field selector for watches; empty for all objects.
    """

    def __init__(
        self,
        api: ApiClient,
        path: str,
        reflected: Reflected,
        *,
        look_again: float,
        version: str | None = None,
        fields: str = "",
    ) -> None:
        self._api = api
        self._path = path
        self._reflected = reflected
        self._look_again = look_again
        self._version = version
        self._fields = fields
        self._progressed = False

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = watch_backoff()
        while True:
            retry_after, self._progressed = None, False
            try:
                if self._version is None:
                    self._version = await self._reflected.list_all()
                if not self._version:
                    await asyncio.sleep(self._look_again)
                    self._version = None
                    continue
                await self._watch(self._version)
            except Exception as error:  # noqa: BLE001 - whatever fails, the objects must stay up to date
                retry_after = self._note(error)
            if self._progressed:
                backoff.reset()
            await backoff.sleep(retry_after)  # never a tight loop, even if the server ends each watch at once

    async def _watch(self, version: str) -> None:
        """Follow one watch to its end."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        if self._fields:
            params["fieldSelector"] = self._fields
        async with self._api.stream(self._path, params, _IDLE_TIMEOUT) as lines:
            if not self._reflected.opened():
                self._version = None
                return
            async for line in lines:
                if line.startswith(_ERROR):
                    self._end(decode_event(line, decode_identity).status or WatchStatus())
                    return
                if version := self._reflected.take(line):
                    self._version, self._progressed = version, True

    def _end(self, status: WatchStatus) -> None:
        """Note the error with which the API server ends a watch; the watch resumes only if it was one too many."""
        level = logging.INFO if status.code == HTTPStatus.GONE else logging.WARNING
        log.log(level, "watch of %s: %s", self._path, status.message)
        if status.code != HTTPStatus.TOO_MANY_REQUESTS:
            self._version = None

    def _note(self, error: Exception) -> float | None:
        """Note why a list or a watch failed; return the seconds for which the API server asks to wait."""
        list_again = self._reflected.failed(error)
        if isinstance(error, ApiError):
            if error.response.status in _GONE:
                self._version = None
            elif list_again:
                self._version = ""
            return error.response.retry_after
        if not isinstance(error, ApiUnreachableError):
            log.error("watch of %s failed and is restarted", self._path, exc_info=error)
            self._version = None
        return None


def watch_backoff() -> Backoff:
    """Return the back-off between lists and watches, from 0.2 to 10 seconds."""
    return Backoff(_SHORTEST_DELAY, _LONGEST_DELAY)
