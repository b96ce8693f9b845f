"""Tasks that end with what started them, wherever it left them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

_PATIENCE = 20.0
"""Seconds that a task may take to tidy up before it is cancelled again."""
_CANCELLATIONS = 10
"""How often a task is cancelled before it is left behind."""

_Tasks = WeakKeyDictionary[asyncio.Task[Any], None]
"""Tasks in the order in which they were started."""
_SCOPE: ContextVar[_Tasks | None] = ContextVar("task scope", default=None)


@asynccontextmanager
async def task_scope(patience: float) -> AsyncIterator[None]:
    """End, with a block, all tasks that were started in it, directly or by one of them.

    They are ended one after the other, the oldest first: it may need those that it has started to tidy up.

    Parameters
    ----------
    patience
        Seconds that they may take to tidy up before they are cancelled again.
    """
    asyncio.get_running_loop().set_task_factory(_start)
    tasks: _Tasks = WeakKeyDictionary()
    token = _SCOPE.set(tasks)
    try:
        yield
    finally:
        _SCOPE.reset(token)
        for task in list(tasks):
            await end([task], patience)
            if task.done() and not task.cancelled():
                task.exception()  # why they failed was told with the block, and need not be told of each


def _start(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    /,
    **options: Any,
) -> asyncio.Task[Any]:
    """Start a task as the loop does, in the scope of who starts it."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    scope = _SCOPE.get()
    if scope is not None:
        scope[task] = None
    return task


async def end(tasks: Collection[asyncio.Task[Any]], patience: float = _PATIENCE) -> None:
    """End tasks; those that have not after so many seconds are cancelled again.

    Before Python 3.12 ``wait_for``, which kopf uses, may lose a cancellation.
    """
    for _ in range(_CANCELLATIONS):
        left = [task for task in tasks if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=patience)
