"""Tasks: several at a time, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

__all__ = ["end_tasks", "map_concurrently"]

_AT_ONCE: Final = 8
_GRACE_PERIOD: Final = 20.0
"""Seconds that a task may take to tidy up before it is cancelled again."""
_CANCELLATIONS: Final = 10
"""How often a task is cancelled before it is left behind."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def map_concurrently(
    function: Callable[[_Item], Awaitable[_Result]], items: Iterable[_Item], at_once: int = _AT_ONCE
) -> list[_Result]:
    """Return what a function comes to for each item, in their order; so many are under way at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: _Item) -> _Result:
        async with gate:
            return await function(item)

    return await asyncio.gather(*(one(item) for item in items))


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], grace_period: float = _GRACE_PERIOD) -> None:
    """Cancel tasks, and wait until they have ended; what they end with is nobody's business any more.

    Before Python 3.12 ``wait_for``, which kopf uses, may lose a cancellation.

    Parameters
    ----------
    grace_period
        Seconds after which those that have not ended are cancelled again.
    """
    ending = list(tasks)
    for _ in range(_CANCELLATIONS):
        left = [task for task in ending if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=grace_period)
    for task in ending:
        if task.done() and not task.cancelled():
            task.exception()
