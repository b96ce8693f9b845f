"""Computes what would be if: in a world of its own, in a thread of its own, one question after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, TypeVar

from vgpu_scheduler.ui.concurrency_limit import ConcurrencyLimit
from vgpu_scheduler.ui.errors import RefusedError

_MOST: Final = 4
"""Questions that wait for their turn, the one that is being answered included."""
_MOST_OF_ONE: Final = 2
"""Of one user among them, where there are several."""
_SECONDS: Final = 20.0
_Answer = TypeVar("_Answer")


class WhatIfThread:
    """The thread, and how many wait for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "what if")
        self._limit = ConcurrencyLimit(
            _MOST,
            _MOST_OF_ONE,
            "{} questions of this kind are being answered: ask again soon",
            "{} questions of yours are being answered: ask again soon",
        )

    async def ask(self, work: Callable[[], _Answer], user: str | None = None) -> _Answer:
        """Return what some work results in.

        Parameters
        ----------
        user
            Who asks, where there are several users; None where there is one.

        Raises
        ------
        RefusedError
            If too many wait already.
        """
        self._limit.begin(user)

        def end(asked: asyncio.Future[_Answer]) -> None:
            self._limit.end(user)
            if not asked.cancelled():
                asked.exception()  # somebody who is gone does not ask for it

        asked = asyncio.get_running_loop().run_in_executor(self._thread, work)
        asked.add_done_callback(end)
        return await asyncio.shield(asked)  # it has its turn until it ends, whoever is gone meanwhile

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def until_too_long(instead: str) -> Callable[[object], None]:
    """Return what is called with each step of some work, and ends it where it takes too long.

    Parameters
    ----------
    instead
        What somebody can do who wants to know nevertheless.
    """
    end = time.monotonic() + _SECONDS

    def check(_: object) -> None:
        if time.monotonic() > end:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"this takes longer than {_SECONDS:.0f} seconds: {instead}"
            )

    return check
