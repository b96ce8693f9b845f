"""How the process keeps its memory that serves the page of a live cluster."""

from __future__ import annotations

import asyncio
import gc
from typing import Final

from vgpu_scheduler.runtime.collecting import release_compiler_pages, release_memory, settle_memory

_EVERY: Final = 30.0
"""Seconds between two times that memory is given back."""


def settle() -> None:
    """Take what is held now for what stays: no page waits until it was searched for garbage."""
    settle_memory()
    release_compiler_pages()


async def give_back() -> None:
    """Give back from time to time what was needed to make pages, to look as the doctor does, and to link kernels."""
    while True:
        await asyncio.sleep(_EVERY)
        await asyncio.to_thread(_release)


def _release() -> None:
    gc.collect()
    release_memory()
    release_compiler_pages()
