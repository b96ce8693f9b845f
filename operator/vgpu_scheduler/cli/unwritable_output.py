"""The end of a command whose output cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Final, TypeGuard

_CAUSES: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})
_FAILED: Final = 2
_PIPE_CLOSED: Final = 141
"""The exit status of a process ended by SIGPIPE."""


def open_closed_stdout() -> None:
    """Drop what is written to stdout if it was closed before the command began, as by ``>&-``."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process


def is_unwritable(error: Exception) -> TypeGuard[OSError]:
    """Tell whether an error is about stdout or stderr rather than about a file, a connection or anything else."""
    return isinstance(error, OSError) and error.errno in _CAUSES and not error.filename


def end_unwritable(error: OSError) -> None:
    """End the process, whose buffered output is dropped: with 141 if nobody reads it any more, else with 2.

    Raises
    ------
    SystemExit
        Always.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    if error.errno == errno.EPIPE:
        raise SystemExit(_PIPE_CLOSED)
    sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
    raise SystemExit(_FAILED)
