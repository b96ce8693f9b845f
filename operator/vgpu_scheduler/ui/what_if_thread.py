"""Computes what would be if: in a world of its own, in a thread of its own, one question after the other."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

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
        self._asked: Counter[Hashable] = Counter()

    async def ask(self, work: Callable[[], _Answer], who: Hashable = None) -> _Answer:
        """Return what some work results in.

        Parameters
        ----------
        who
            The user who asks, where there are several; None where there is one.

        Raises
        ------
        RefusedError
            If too many wait already.
        """
        if self._asked.total() >= _MOST:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{_MOST} questions of this kind are being answered: ask again soon"
            )
        if who is not None and self._asked[who] >= _MOST_OF_ONE:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{_MOST_OF_ONE} questions of yours are being answered: ask again soon"
            )
        self._asked[who] += 1
        asked = asyncio.get_running_loop().run_in_executor(self._thread, work)
        asked.add_done_callback(partial(self._answered, who))
        return await asyncio.shield(asked)  # it has its turn until it ends, whoever is gone meanwhile

    def _answered(self, who: Hashable, asked: asyncio.Future[_Answer]) -> None:
        self._asked[who] -= 1
        if not self._asked[who]:
            del self._asked[who]
        if not asked.cancelled():
            asked.exception()  # somebody who is gone does not ask for it

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
