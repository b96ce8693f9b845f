"""How the memory of a process is kept that holds a large cluster."""

from __future__ import annotations

import ctypes
import gc
import mmap
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_COMPILER: Final = "libllvmlite"
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_WRITTEN: Final = frozenset(("Anonymous", "Private_Dirty", "Swap"))
"""What smaps calls the kB of a mapping that are not as in its file."""
_MAPPING: Final = re.compile(r"(?P<first>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-[-x]p .*/(?P<file>[^/]+)$")
"""The line that begins what smaps says of a mapping which is read from a file, and which nobody may write to."""


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely: of what the lists of a large cluster bring, nearly all stays."""
    gc.set_threshold(50_000, 20, 100)


def collect_less_often() -> None:
    """Run the garbage collector less often than Python does: for a process that makes large worlds, and drops some."""
    gc.set_threshold(10_000, 10, 10)


def settle_memory() -> None:
    """Take what is held now for what stays: it is not searched for garbage again, and what is free is given back.

    Thousands of live objects would make full collections the largest cost of all. What was taken for it before, and is
    held no more, is given back, too.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    release_memory()


def release_memory() -> None:
    """Give free memory back to the system; the C library keeps it otherwise, once a large list was read."""
    with suppress(OSError, AttributeError):  # another C library than glibc does without
        ctypes.CDLL(None).malloc_trim(0)


def release_compiler_pages() -> None:
    """Let go of the compiler's code once the kernels are linked: nothing reads these 60 MiB again.

    They are no longer resident in this process. The system may keep them in its cache of files, as long as it has
    room, and who reads them after all gets them from there, or from the disk.
    """
    with suppress(OSError, AttributeError):  # no Linux
        libc = ctypes.CDLL(None)
        for first, length in unmodified_mappings(Path("/proc/self/smaps").read_text(errors="replace"), _COMPILER):
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def unmodified_mappings(smaps: str, library: str) -> list[tuple[int, int]]:
    """Return the mappings of a library, address and bytes, that are what its file says: only these may be dropped.

    The loader writes relocations into some, and makes these read-only afterwards; what is in swap was written, too.

    Parameters
    ----------
    smaps
        What ``/proc/PID/smaps`` says.
    library
        How the name of its file begins.
    """
    found: dict[tuple[int, int], int] = {}
    mapping: tuple[int, int] | None = None
    for line in smaps.splitlines():
        if line[:1] in _HEXADECIMAL:
            of_file = _MAPPING.match(line)
            mapping = None
            if of_file and of_file["file"].startswith(library):
                first, end = (int(of_file[name], 16) for name in ("first", "end"))
                mapping = first, end - first
                found[mapping] = 0
        elif mapping and line.partition(":")[0] in _WRITTEN:
            found[mapping] += int(line.split()[1])
    return [where for where, written in found.items() if not written]
