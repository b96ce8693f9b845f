"""Tells browsers by server-sent events that their pages may show something else by now."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.current import CurrentWorld
from vgpu_scheduler.ui.errors import RefusedError

MOST: Final = 64
"""Streams that are open at a time."""
_PAUSE: Final = 0.25
"""Seconds between two events."""
_STILL_THERE: Final = 15.0
"""Seconds of silence after which a comment is sent."""
_RETRY: Final = b"retry: 1000\n\n"


class Streams:
    """The open streams."""

    def __init__(self, current: CurrentWorld) -> None:
        self._current = current
        self._open: set[asyncio.Task[None]] = set()

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Send the generation, now and whenever there is another one.

        Raises
        ------
        RefusedError
            If there are too many streams already.
        """
        if len(self._open) >= MOST:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST} pages are open already: close some of them")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        task = asyncio.create_task(self._send(request, answer))
        self._open.add(task)
        try:
            await task
        except (asyncio.CancelledError, ConnectionError):
            task.cancel()
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise
        finally:
            self._open.discard(task)
        return answer

    async def _send(self, request: web.Request, answer: web.StreamResponse) -> None:
        await answer.prepare(request)
        await answer.write(_RETRY)
        shown = 0
        while True:
            try:
                shown = await asyncio.wait_for(self._current.later_than(shown), _STILL_THERE)
            except TimeoutError:
                await answer.write(b":\n\n")
                continue
            await answer.write(f"data: {shown}\n\n".encode())
            await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        """End all streams."""
        for task in tuple(self._open):
            task.cancel()
