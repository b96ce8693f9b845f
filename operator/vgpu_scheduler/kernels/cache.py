"""Where numba keeps the compiled kernels: one directory for each state of their sources.

Numba compares a compiled function with the file that holds the function. It does not notice that a function that the
first one calls, or a constant, has changed in another file, and would go on to run the old code after an upgrade. So
the name of the directory is a digest of all files that kernels are compiled from, and nothing else is compared: where
these files lie makes no difference, so that all copies of the same sources share what was compiled once. Directories of
other digests are left alone: another version may be running from them.

An image brings a directory beside the kernels, compiled for any processor of its architecture
(``NUMBA_CPU_NAME=generic``). Numba wants to write where it reads, and a root file system that is read-only does not let
it; so what was brought is copied first.
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
"""Kernels call each other, and are compiled with constants of the model (reasons, kinds of containers)."""
_BROUGHT = _KERNELS / "compiled"
"""Where an image has what was compiled when it was built."""
_ENTRY: dict[str, Any] = {"cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_ENTRY, "no_cpython_wrapper": True}
_INLINED: dict[str, Any] = {**_INNER, "cache": False, "inline": "always"}
_CONFIG: dict[str, Any] = vars(config)
_PRIVATE: list[TemporaryDirectory[str]] = []
"""Directories that go when the process ends."""


def kernel(function: Function) -> Function:
    """Have numba compile a function that other kernels call, and keep the result.

    Kernels allocate nothing, so they need no count of references to arrays either. Without it they are several times as
    fast and compile in two thirds of the time, and one that does allocate does not compile. What makes arguments out of
    Python's objects takes as long to compile as the function itself, so only :func:`entry_kernel` has it: Python cannot
    call the others.
    """
    return cast("Function", _uncallable(njit(**_INNER)(function)))


def inlined_kernel(function: Function) -> Function:
    """Have numba compile a function as a part of the one kernel that calls it.

    A kernel is optimised together with all that it calls, and so again at each level of calls. One level less saves
    seconds for what calls most of the others. Each level also hands on all arrays that the kernels below it need, word
    by word: where a call does little, as for one claim on one node, that takes a third of the time. Elsewhere it gains
    nothing.
    """
    return cast("Function", _uncallable(njit(**_INLINED)(function)))


def _uncallable(compiled: Any) -> Any:
    """Keep Python from calling a kernel that has no way in for it."""
    if not _CONFIG["DISABLE_JIT"]:
        compiled.__class__ = _inner(type(compiled))  # type: ignore[arg-type]
    return compiled


@cache
def _inner(dispatcher: type[Any]) -> type[Any]:
    """Return a class of dispatchers that refuse to be called: without a way in, the process would crash."""

    def refuse(self: Any, *_: object, **__: object) -> None:
        raise TypeError(f"{self.py_func.__name__} is called by kernels only; entry_kernel is for what Python calls")

    return type("InnerKernel", (dispatcher,), {"__call__": refuse})


def entry_kernel(function: Function) -> Function:
    """Have numba compile a function that Python calls, too, when it is first called with such arguments."""
    return cast("Function", njit(**_ENTRY)(function))


class SourceDigestLocator(UserProvidedCacheLocator):
    """Tells numba where a kernel is kept: by its file within the package, in the directory of these sources."""

    def __init__(self, function: object, file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._cache_path = str(Path(_CONFIG["CACHE_DIR"]) / Path(file).relative_to(_KERNELS).with_suffix(""))

    def get_source_stamp(self) -> str:
        """Return the digest of all sources."""
        return Path(_CONFIG["CACHE_DIR"]).name

    @classmethod
    def from_function(cls, function: object, file: str) -> Self | None:
        """Return where a kernel is kept; None for a function of another package."""
        if not Path(file).is_relative_to(_KERNELS):
            return None
        found: Self | None = super().from_function(function, file)  # type: ignore[no-untyped-call]
        return found


def is_compiled() -> bool:
    """Tell whether all kernels of these sources were compiled for this processor, by whichever process."""
    return bool(_CONFIG["DISABLE_JIT"]) or _mark().exists()


def note_compiled() -> None:
    """Note for later processes that all kernels were compiled."""
    if not _CONFIG["DISABLE_JIT"]:
        _mark().touch()


def compiles_first() -> bool:
    """Tell, once, that this process compiles kernels of which later ones find what it compiled.

    A process that places no pods in all ways there are does not compile all of them, so that this is noted by itself.
    """
    if is_compiled() or _PRIVATE:
        return False
    try:
        _mark().with_name(f"begun-{_mark().name}").touch(exist_ok=False)
    except OSError:  # there is one, or none can be made
        return False
    return True


def cache_place() -> Path:
    """Return the value of ``NUMBA_CACHE_DIR`` with which another process uses the same directory."""
    return Path(_CONFIG["CACHE_DIR"]).parent


def _mark() -> Path:
    processor = _CONFIG["CPU_NAME"] or get_host_cpu_name()
    return Path(_CONFIG["CACHE_DIR"]) / f"compiled-{sys.implementation.cache_tag}-{numba.__version__}-{processor}"


def _choose_directory() -> None:
    """Have numba keep what it compiles in the directory of these sources.

    It is made in the first of these places that can be written to: ``NUMBA_CACHE_DIR``, the user's cache directory, and
    the folder of the kernels. Where none can, each process compiles into a directory of its own.
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
    """Return a digest of the names and contents of all Python files in some folders and those inside them."""
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


_choose_directory()  # where a function's code is kept is settled when it is decorated
