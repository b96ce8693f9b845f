"""Server-sent events that tell browsers when their pages may have changed."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.access import Visitor
from vgpu_scheduler.ui.concurrency_limit import ConcurrencyLimit
from vgpu_scheduler.ui.current import CurrentWorld

MOST: Final = 64
"""The most open streams."""
_MOST_OF_ONE: Final = 16
"""The most open streams of one user."""
_PAUSE: Final = 0.25
"""Seconds between two events."""
_STILL_THERE: Final = 15.0
"""Seconds of silence after which a comment is sent to keep the connection alive."""
_RETRY: Final = b"retry: 1000\n\n"


class Streams:
    """The open streams.

    Parameters
    ----------
    lasts
        Seconds after which a stream ends and its browser reconnects; None for no limit.
    """

    def __init__(self, current: CurrentWorld, lasts: float | None) -> None:
        self._current = current
        self._lasts = lasts
        self._open: set[asyncio.Task[None]] = set()
        self._limit = ConcurrencyLimit(
            MOST,
            _MOST_OF_ONE,
            "{} pages are open already: close some of them",
            "you have {} pages open: close some of them",
        )

    async def follow(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Send the number of the generation, now and whenever it rises; the events carry no other data.

        Raises
        ------
        HttpStatusError
            If too many streams are open.
        """
        with self._limit.held(visitor.user_name):
            answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
            task = asyncio.create_task(self._send(request, answer))
            self._open.add(task)
            try:
                async with asyncio.timeout(self._lasts):  # wait_for may lose cancellations before Python 3.12
                    await task
            except (asyncio.CancelledError, ConnectionError, TimeoutError):
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
                async with asyncio.timeout(_STILL_THERE):
                    shown = await self._current.wait_for_generation_after(shown)
            except TimeoutError:
                await answer.write(b":\n\n")
                continue
            await answer.write(f"data: {shown}\n\n".encode())
            await asyncio.sleep(_PAUSE)

    async def close(self) -> None:
        """End all streams."""
        for task in tuple(self._open):
            task.cancel()
