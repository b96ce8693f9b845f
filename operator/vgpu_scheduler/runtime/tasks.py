"""Tasks that run side by side until the first of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from vgpu_scheduler.intake import end

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
