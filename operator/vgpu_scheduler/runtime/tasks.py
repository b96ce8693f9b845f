"""Tasks that run side by side until the first of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

_PATIENCE = 20.0
"""Seconds that a task may take to tidy up before it is told to end again."""
_CANCELLATIONS = 10
"""How often a task is told to end before it is left behind."""

Named = tuple[str, Coroutine[Any, Any, None]]


def start(works: Sequence[Named]) -> list[asyncio.Task[None]]:
    """Start works under their names."""
    return [asyncio.create_task(work, name=name) for name, work in works]


async def first_of(*works: Named) -> None:
    """Run works until the first of them ends, end the others, and raise what that one raised."""
    tasks = start(works)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(tasks)


async def end(tasks: Sequence[asyncio.Task[Any]], patience: float = _PATIENCE) -> None:
    """End tasks; those that have not after so many seconds are told again.

    Before Python 3.12 ``wait_for``, which kopf uses, may lose a cancellation.
    """
    for _ in range(_CANCELLATIONS):
        left = [task for task in tasks if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=patience)
