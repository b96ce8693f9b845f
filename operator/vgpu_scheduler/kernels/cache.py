"""The cache directory of numba's compiled kernels: one directory per version of their sources.

Numba checks a cached function only against its own source file. It would run old code after a called function or a
constant in another file has changed. So the directory name is a digest of all files that kernels are compiled from,
and nothing else is compared: all copies of the same sources share one cache, wherever they are installed. Directories
of other digests are kept, because another version may be running from them.

A container image has a precompiled directory beside the kernels, for any processor of its architecture
(``NUMBA_CPU_NAME=generic``). It is copied first, because numba needs a writable cache and the root file system may be
read-only.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Self, TypeVar, cast

import numba
from llvmlite.binding import get_host_cpu_name
from numba import config, njit
from numba.core.caching import UserProvidedCacheLocator

Function = TypeVar("Function", bound=Callable[..., Any])

_KERNELS = Path(__file__).parent
_SOURCES = (_KERNELS, _KERNELS.parent / "model")
"""The digested folders: kernels are compiled with each other and with constants of the model."""
_BROUGHT = _KERNELS / "compiled"
"""The precompiled directory of a container image."""
_ENTRY: dict[str, Any] = {"cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_ENTRY, "no_cpython_wrapper": True}
_INLINED: dict[str, Any] = {**_INNER, "cache": False, "inline": "always"}
_CONFIG: dict[str, Any] = vars(config)
_PRIVATE: list[TemporaryDirectory[str]] = []
"""Temporary directories that are removed when the process ends."""


def kernel(function: Function) -> Function:
    """Compile and cache a function that only other kernels call.

    Kernels allocate nothing, so they need no reference counting of arrays. Without it they are several times as fast
    and compile in two thirds of the time, and a kernel that does allocate fails to compile. The wrapper that converts
    Python arguments takes as long to compile as the function itself, so only :func:`entry_kernel` has one: Python
    cannot call other kernels.
    """
    return cast("Function", _uncallable(njit(**_INNER)(function)))


def inlined_kernel(function: Function) -> Function:
    """Inline a function into the one kernel that calls it.

    A kernel is optimised together with everything that it calls, again at each call level, so one level less saves
    seconds of compilation for functions near the top. Each call also passes every word of all array arguments, which
    takes a third of the time of small calls such as the fit of one claim on one node. Elsewhere it gains nothing.
    """
    return cast("Function", _uncallable(njit(**_INLINED)(function)))


def _uncallable(compiled: Any) -> Any:
    """Make a kernel without a Python wrapper raise when Python calls it."""
    if not _CONFIG["DISABLE_JIT"]:
        compiled.__class__ = _inner(type(compiled))  # type: ignore[arg-type]
    return compiled


@cache
def _inner(dispatcher: type[Any]) -> type[Any]:
    """Return a dispatcher class that raises when it is called: without a wrapper the process would crash."""

    def refuse(self: Any, *_: object, **__: object) -> None:
        raise TypeError(f"{self.py_func.__name__} is called by kernels only; entry_kernel is for what Python calls")

    return type("InnerKernel", (dispatcher,), {"__call__": refuse})


def entry_kernel(function: Function) -> Function:
    """Compile and cache a function that Python may call, on the first call with each set of argument types."""
    return cast("Function", njit(**_ENTRY)(function))


class SourceDigestLocator(UserProvidedCacheLocator):
    """Locates a kernel's cache by its file within the package, in the directory of the current sources."""

    def __init__(self, function: object, file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._cache_path = str(Path(_CONFIG["CACHE_DIR"]) / Path(file).relative_to(_KERNELS).with_suffix(""))

    def get_source_stamp(self) -> str:
        """Return the digest of all sources."""
        return Path(_CONFIG["CACHE_DIR"]).name

    @classmethod
    def from_function(cls, function: object, file: str) -> Self | None:
        """Return the locator for a kernel; None for a function of another package."""
        if not Path(file).is_relative_to(_KERNELS):
            return None
        found: Self | None = super().from_function(function, file)  # type: ignore[no-untyped-call]
        return found


def is_compiled() -> bool:
    """Tell whether any process has compiled all kernels of these sources for this processor."""
    return bool(_CONFIG["DISABLE_JIT"]) or _mark().exists()


def note_compiled() -> None:
    """Note for later processes that all kernels were compiled."""
    if not _CONFIG["DISABLE_JIT"]:
        _mark().touch()


def compiles_first() -> bool:
    """Return True in the first process that compiles kernels into a persistent cache, and only once.

    This has a marker of its own, because a process that does not use all kernels never calls :func:`note_compiled`.
    """
    if is_compiled() or _PRIVATE:
        return False
    try:
        _mark().with_name(f"begun-{_mark().name}").touch(exist_ok=False)
    except OSError:  # the marker exists, or cannot be written
        return False
    return True


def cache_place() -> Path:
    """Return the value of ``NUMBA_CACHE_DIR`` with which another process uses the same directory."""
    return Path(_CONFIG["CACHE_DIR"]).parent


def _mark() -> Path:
    processor = _CONFIG["CPU_NAME"] or get_host_cpu_name()
    return Path(_CONFIG["CACHE_DIR"]) / f"compiled-{sys.implementation.cache_tag}-{numba.__version__}-{processor}"


def _choose_directory() -> None:
    """Set numba's cache directory to that of the current sources.

    It is created in the first writable of these places: ``NUMBA_CACHE_DIR``, the user's cache directory, the folder of
    the kernels. If none is writable, each process compiles into a temporary directory of its own.
    """
    if _CONFIG["DISABLE_JIT"]:
        return
    name = digest_of(_SOURCES)
    directory = next((place / name for place in _places() if _is_writable(place / name)), None)
    if directory is None:
        _PRIVATE.append(TemporaryDirectory(prefix="vgpu-scheduler-kernels-"))
        directory = Path(_PRIVATE[-1].name) / name
        directory.mkdir()
    brought = _BROUGHT / name
    if brought != directory and brought.is_dir() and not any(directory.iterdir()):
        shutil.copytree(brought, directory, dirs_exist_ok=True)
    _CONFIG["CACHE_DIR"] = str(directory)
    _CONFIG["CACHE_LOCATOR_CLASSES"] = f"{__name__}.{SourceDigestLocator.__name__}, UserProvidedCacheLocator"


def digest_of(folders: Iterable[Path]) -> str:
    """Return a digest of the names and contents of all Python files in some folders, recursively."""
    digest = sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            content = file.read_bytes()
            digest.update(f"{folder.name}/{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _places() -> Iterator[Path]:
    if _CONFIG["CACHE_DIR"]:
        yield Path(_CONFIG["CACHE_DIR"])
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "vgpu-scheduler" / "kernels"
    yield _KERNELS / "__pycache__"


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


_choose_directory()  # before any kernel is decorated, because the decorator fixes its cache location
