"""Compiled modules, kept for the many interpreters that tests and benchmarks start."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1] / "build" / "bytecode"


def keep_bytecode() -> None:
    """Have processes that are started from now on keep what they compile of modules, as an image keeps it.

    An operator that has to compile all of its modules takes more than twice as long to start. Where the environment
    names a place for them already, they go there.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_FOLDER))
