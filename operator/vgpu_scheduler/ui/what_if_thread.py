"""Answers what-if questions, each on a world of its own, one after the other in one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, TypeVar

from vgpu_scheduler.ui.concurrency_limit import ConcurrencyLimit
from vgpu_scheduler.ui.errors import HttpStatusError

_MOST: Final = 4
"""The most questions in the queue, including the one being answered."""
_MOST_OF_ONE: Final = 2
"""The most of them for one user."""
_SECONDS: Final = 20.0
_Answer = TypeVar("_Answer")


class WhatIfThread:
    """The thread and its queue."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "what if")
        self._limit = ConcurrencyLimit(
            _MOST,
            _MOST_OF_ONE,
            "{} questions of this kind are being answered: try again soon",
            "{} questions of yours are being answered: try again soon",
        )

    async def ask(self, work: Callable[[], _Answer], user: str | None = None) -> _Answer:
        """Run a function in the thread, and return its result.

        Parameters
        ----------
        user
            The name of the user; None if the page has a single user.

        Raises
        ------
        HttpStatusError
            If the queue is full.
        """
        self._limit.begin(user)

        def end(asked: asyncio.Future[_Answer]) -> None:
            self._limit.end(user)
            if not asked.cancelled():
                asked.exception()  # retrieve the error, although maybe nobody waits for it

        asked = asyncio.get_running_loop().run_in_executor(self._thread, work)
        asked.add_done_callback(end)
        return await asyncio.shield(asked)  # it counts until it ends, even if its caller is cancelled

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def until_too_long(instead: str) -> Callable[[object], None]:
    """Return a function that raises once a time limit is over; call it at each step of a computation.

    Parameters
    ----------
    instead
        What the user can do instead, for the message.
    """
    end = time.monotonic() + _SECONDS

    def check(_: object) -> None:
        if time.monotonic() > end:
            raise HttpStatusError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"this takes longer than {_SECONDS:.0f} seconds: {instead}"
            )

    return check
