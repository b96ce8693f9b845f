"""Ends all tasks that some code starts, directly or through other tasks, when the code ends.

kopf starts tasks that it leaves running when one of its watches fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from vgpu_scheduler.apiclient import end_tasks

_Tasks = WeakKeyDictionary[asyncio.Task[Any], None]
"""Tasks in the order in which they were started."""
_SCOPE: ContextVar[_Tasks | None] = ContextVar("task scope", default=None)


@asynccontextmanager
async def task_scope(grace_period: float) -> AsyncIterator[None]:
    """End all tasks that were started in the block, directly or by another of these tasks, when the block ends.

    They are ended one after the other, the oldest first, because a task may need the tasks that it started to clean up.

    Parameters
    ----------
    grace_period
        Seconds that a task gets to clean up before it is cancelled again.
    """
    asyncio.get_running_loop().set_task_factory(_start)
    tasks: _Tasks = WeakKeyDictionary()
    token = _SCOPE.set(tasks)
    try:
        yield
    finally:
        _SCOPE.reset(token)
        for task in list(tasks):
            await end_tasks([task], grace_period)


def _start(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    /,
    **options: Any,
) -> asyncio.Task[Any]:
    """Start a task as the loop does, and add it to the current task scope."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    scope = _SCOPE.get()
    if scope is not None:
        scope[task] = None
    return task
