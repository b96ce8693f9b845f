"""How the memory of a process is kept that holds a large cluster."""

from __future__ import annotations

import ctypes
import gc
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_COMPILER: Final = "libllvmlite"
_MAPPING: Final = re.compile(r"(?P<first>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-[-x]p .*/(?P<file>[^/]+)$")
"""The line that begins what smaps says of a mapping which is read from a file, and which nobody may write to."""


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


def let_go_of_compiler() -> None:
    """Let go of the compiler's code once the kernels are linked: 60 MiB that nothing reads again.

    Should anything read it after all, the system takes it from its cache of files.
    """
    with suppress(OSError, AttributeError):  # no Linux
        libc = ctypes.CDLL(None)
        for first, length in list(_unchanged(_COMPILER)):
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def _unchanged(library: str) -> Iterator[tuple[int, int]]:
    """Yield the mappings of a library, address and bytes, that are what its file says: only these may be dropped.

    The loader writes into some, and takes the right to write from them afterwards.
    """
    found: re.Match[str] | None = None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            found = _MAPPING.match(line)
        elif found and found["file"].startswith(library) and line.split() == ["Anonymous:", "0", "kB"]:
            first = int(found["first"], 16)
            yield first, int(found["end"], 16) - first
