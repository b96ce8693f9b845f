"""Tasks: bounded concurrency and cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

_AT_ONCE: Final = 8
_GRACE_PERIOD: Final = 20.0
"""Seconds that a task may take to tidy up before it is cancelled again."""
_CANCELLATIONS: Final = 10
"""How often a task is cancelled before it is abandoned."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def map_concurrently(
    function: Callable[[_Item], Awaitable[_Result]], items: Iterable[_Item], at_once: int = _AT_ONCE
) -> list[_Result]:
    """Return the results of a function for all items, in their order, with at most ``at_once`` calls in flight."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: _Item) -> _Result:
        async with gate:
            return await function(item)

    return await asyncio.gather(*(one(item) for item in items))


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], grace_period: float = _GRACE_PERIOD) -> None:
    """Cancel tasks and wait until they have ended; their errors are ignored.

    Tasks are cancelled repeatedly: before Python 3.12 ``wait_for``, which kopf uses, may lose a cancellation.

    Parameters
    ----------
    grace_period
        Seconds to wait for the tasks before they are cancelled again.
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


class TaskSet:
    """Background tasks of one owner, which stops them together; an error that ends a task is logged at once."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        """Tell whether any task is still running."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task for a coroutine; its name says in the log what the task was for."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s was ended by an error", task.get_name(), exc_info=error)

    async def stop(self, grace: float = 0.0) -> None:
        """Wait at most ``grace`` seconds for the tasks to finish, then cancel the others."""
        if self._tasks and grace:
            await asyncio.wait(self._tasks, timeout=grace)
        await end_tasks(self._tasks)
