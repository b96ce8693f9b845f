"""Memory management of a process that holds a large cluster."""

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
"""The fields of smaps that count the kB of a mapping that differ from its file."""
_MAPPING: Final = re.compile(r"(?P<first>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-[-x]p .*/(?P<file>[^/]+)$")
"""The line of smaps that begins a read-only mapping of a file."""


def tune_garbage_collector() -> None:
    """Run the garbage collector rarely: nearly all objects from the lists of a large cluster stay alive."""
    gc.set_threshold(50_000, 20, 100)


def collect_less_often() -> None:
    """Run the garbage collector less often than by default: for a process that makes large clusters and drops some."""
    gc.set_threshold(10_000, 10, 10)


def settle_memory() -> None:
    """Exclude all live objects from garbage collection, and return free memory to the system.

    Thousands of live objects would otherwise make full collections the largest cost of all. Objects that an earlier
    call excluded and that are unreferenced now are collected.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    release_memory()


def release_memory() -> None:
    """Return free memory to the system; the C library would keep it after a large list was read."""
    with suppress(OSError, AttributeError):  # a C library other than glibc has no such function
        ctypes.CDLL(None).malloc_trim(0)


def release_compiler_pages() -> None:
    """Drop the compiler's code from memory once the kernels are linked: these 60 MiB are not read again.

    The pages are no longer resident in this process. The system may keep them in its page cache; a later read takes
    them from there or from the disk.
    """
    with suppress(OSError, AttributeError):  # no Linux
        libc = ctypes.CDLL(None)
        for first, length in unmodified_mappings(Path("/proc/self/smaps").read_text(errors="replace"), _COMPILER):
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def unmodified_mappings(smaps: str, library: str) -> list[tuple[int, int]]:
    """Return the unmodified mappings of a library (address, bytes): only pages equal to the file may be dropped.

    The loader writes relocations into some mappings and then makes them read-only; pages in swap were written, too.

    Parameters
    ----------
    smaps
        The content of ``/proc/PID/smaps``.
    library
        The beginning of the library's file name.
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
