"""How the memory of a process is kept that holds a large cluster."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def settle_memory() -> None:
    """Take what is held now for what stays: it is not searched for garbage again, and what is free is given back.

    Thousands of live objects would make full collections the largest cost of all.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    give_back()


def give_back() -> None:
    """Give free memory back to the system; the C library keeps it otherwise, once a large list was read."""
    with suppress(OSError, AttributeError):  # another C library than glibc does without
        ctypes.CDLL(None).malloc_trim(0)
