"""Where numba keeps the compiled kernels: one directory for each state of their sources.

Numba compares a compiled function with the file that holds the function. It does not notice that a function that the
first one calls, or a constant, has changed in another file, and would go on to run the old code after an upgrade. So
the name of the directory is a digest of all files that kernels are compiled from. Directories of other digests are left
alone: another version may be running from them.

An image brings a directory beside the kernels, compiled for any processor of its architecture
(``NUMBA_CPU_NAME=generic``). Numba wants to write where it reads, and a root file system that is read-only does not let
it; so what was brought is copied first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, TypeVar, cast

from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])

_KERNELS = Path(__file__).parent
_SOURCES = (_KERNELS, _KERNELS.parent / "model")
"""Kernels call each other, and are compiled with constants of the model (reasons, kinds of containers)."""
_BROUGHT = _KERNELS / "compiled"
"""Where an image has what was compiled when it was built."""
_OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False}
_CONFIG: dict[str, Any] = vars(config)
_PRIVATE: list[TemporaryDirectory[str]] = []
"""Directories that go when the process ends."""


def kernel(function: Function) -> Function:
    """Have numba compile a function when it is first called with such arguments, and keep the result.

    Kernels allocate nothing, so they need no count of references to arrays either. Without it they are several times as
    fast and compile in two thirds of the time, and one that does allocate does not compile.
    """
    return cast("Function", njit(**_OPTIONS)(function))


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
        directory = Path(_PRIVATE[-1].name)
    brought = _BROUGHT / name
    if brought != directory and brought.is_dir() and not any(directory.iterdir()):
        shutil.copytree(brought, directory, dirs_exist_ok=True)
    _CONFIG["CACHE_DIR"] = str(directory)


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
