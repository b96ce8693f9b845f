"""The files of the recorder: buffers rows, writes them in batches, opens and closes files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from vgpu_scheduler import __version__
from vgpu_scheduler.history import (
    ChangeTracker,
    Header,
    HistoryEvent,
    LogFile,
    Retention,
    Row,
    close_left_open,
    prune,
    rows_of,
)
from vgpu_scheduler.settings import HistorySettings

log = logging.getLogger(__name__)

_SEEN_EVERY: Final = 60.0
"""Seconds without an event after which a row says that nothing has happened."""
_TRY_AGAIN_AFTER: Final = 60.0
"""Seconds to pause after a file could not be written."""

TakeIn = Callable[..., Iterable[HistoryEvent]]
"""Turns an occurrence into events; called with the tracker, the time, and the arguments of the occurrence."""


@dataclass(slots=True)
class RecorderStats:
    """Counts of written, dropped and failed rows, for metrics."""

    written: int = 0
    dropped: int = 0
    failed: int = 0
    """How often a file could not be written or deleted."""


class RecorderFiles:
    """The recorder's files; at most one is open.

    Parameters
    ----------
    settings, decisive, run
        As for :class:`HistoryRecorder`.
    tracker
        What is recorded so far; decides what is news.
    stats
        Where rows are counted.
    hashed
        Hashes the names in events, or leaves events as they are.
    """

    def __init__(
        self,
        settings: HistorySettings,
        decisive: dict[str, Any],
        run: str,
        tracker: ChangeTracker,
        stats: RecorderStats,
        hashed: Callable[[Iterable[HistoryEvent]], Iterable[HistoryEvent]],
    ) -> None:
        assert settings.directory is not None
        self._hashed = hashed
        self._settings = settings
        self._directory = settings.directory
        self._decisive = decisive
        self._name = run
        self._tracker = tracker
        self._stats = stats
        self._numbers = count(1)
        self._file: LogFile | None = None
        self._rows: list[Row] = []
        self._last = 0.0
        self._wrote_at = 0.0
        self._not_before = 0.0

    def take(self, at: float, take: TakeIn, what: tuple[Any, ...]) -> None:
        """Buffer the rows of one occurrence."""
        self._last = max(self._last, at)
        for row in rows_of(self._hashed(take(self._tracker, at, *what))):
            self._rows.append(row if row.at >= self._last else row._replace(at=self._last))

    def begin_anew(self) -> None:
        """Open a file that does not continue the last one: it begins with a snapshot."""
        self._write()
        self._close()
        next(self._numbers)
        self._open()

    def flush(self, now: float) -> None:
        """Write the buffered rows, and open a new file if the current one is large or old enough."""
        now = self._last = max(now, self._last)
        if self._rows or now - self._wrote_at >= _SEEN_EVERY:
            self._rows.append(Row(now, "seen"))
            self._write()
        file = self._file
        if file is not None and (
            file.size >= self._settings.file_megabytes * 2**20
            or now - file.header.began >= self._settings.file_hours * 3600.0
        ):
            self._close()
            self._open()

    def finish(self, now: float) -> None:
        """Write the remaining rows and end the file; the next leader converts it, because that may take long."""
        self._rows.append(Row(max(now, self._last), "seen"))
        self._write()
        self._close()

    def _open(self) -> None:
        """Open a file that begins with a snapshot, after the earlier ones are converted and the oldest deleted."""
        self._tidy()
        try:
            self._file = LogFile(
                self._directory,
                Header(
                    self._last,
                    self._name,
                    next(self._numbers),
                    __version__,
                    self._decisive,
                    hashed=self._settings.hash_names,
                ),
            )
            snapshot = list(rows_of(self._hashed(self._tracker.snapshot(self._last)), first=True))
            self._file.write(snapshot)
            self._stats.written += len(snapshot)
            self._wrote_at = self._last
        except (OSError, ValueError) as error:
            if self._file is not None:
                self._file.discard()
                self._file = None
            self._give_up(error)

    def _write(self) -> None:
        """Write the buffered rows; if that fails, drop them, and a later file begins with a snapshot."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        if self._file is None and self._last >= self._not_before:
            self._open()
            self._stats.dropped += len(rows)  # the snapshot contains what they say
            return
        if self._file is None:
            self._stats.dropped += len(rows)
            return
        try:
            self._file.write(rows)
            self._stats.written += len(rows)
            self._wrote_at = self._last
        except (OSError, ValueError) as error:
            self._stats.dropped += len(rows)
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Write nothing for a while after an error."""
        self._failed(f"{self._directory}: {error}; nothing is written for {_TRY_AGAIN_AFTER:.0f} s")
        self._not_before = self._last + _TRY_AGAIN_AFTER
        if self._file is not None:
            self._file.abandon()
            self._file = None
        next(self._numbers)  # skip a number: the next file does not continue this one

    def _close(self) -> None:
        """End the file; it is converted before the next one is opened."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.finish()
        except (OSError, ValueError) as error:
            file.abandon()
            self._failed(f"{file.path}: {error}")

    def _tidy(self) -> None:
        """Convert the files that are not being written, and delete the oldest ones beyond the limit."""
        kept = self._settings
        problems: list[str] = []
        try:
            problems = close_left_open(self._directory)
            prune(self._directory, Retention(kept.keep_files, kept.file_hours, kept.file_megabytes))
            if problems:  # the disk was full, and the deleted files may have made room
                problems = close_left_open(self._directory)
        except OSError as error:  # such as a folder that cannot be listed; the next file may be written all the same
            problems.append(f"{self._directory}: {error}")
        for problem in problems:
            self._failed(problem)

    def _failed(self, text: str) -> None:
        self._stats.failed += 1
        log.warning("history: %s", text)
