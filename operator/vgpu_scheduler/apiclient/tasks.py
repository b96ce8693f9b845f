"""Tasks: several at a time, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

__all__ = ["end_tasks", "map_concurrently"]

_AT_ONCE: Final = 8
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


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended; what they end with is nobody's business any more."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
