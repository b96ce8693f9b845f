"""The progress bar of long commands, shown if stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """A bar on the screen; see :func:`progress_bar`."""

    _shown: Progress
    _task: TaskID

    def advance(self, part: float = 1.0) -> None:
        """Advance the bar."""
        self._shown.advance(self._task, part)

    def describe(self, title: str) -> None:
        """Show what is being done."""
        self._shown.update(self._task, description=title)


@contextmanager
def progress_bar(title: str, total: float) -> Iterator[ProgressBar]:
    """Show a bar on stderr during the block, if stderr is a terminal.

    Parameters
    ----------
    total
        The sum of all calls of :meth:`ProgressBar.advance`.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as bar:
        yield ProgressBar(bar, bar.add_task(title, total=total))
