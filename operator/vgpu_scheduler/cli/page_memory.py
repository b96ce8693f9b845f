"""Memory management of the process that serves the page of a live cluster."""

from __future__ import annotations

import asyncio
import gc
from typing import Final

from vgpu_scheduler.runtime.collecting import release_compiler_pages, release_memory, settle_memory

_EVERY: Final = 30.0
"""Seconds between two releases of memory."""


def settle() -> None:
    """Exclude what is live from garbage collection, so that no page waits for a collection of it."""
    settle_memory()
    release_compiler_pages()


async def give_back() -> None:
    """Release memory periodically that pages, the doctor and the compiler needed."""
    while True:
        await asyncio.sleep(_EVERY)
        await asyncio.to_thread(_release)


def _release() -> None:
    gc.collect()
    release_memory()
    release_compiler_pages()
