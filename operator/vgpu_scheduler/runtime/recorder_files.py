"""The files of the log of what happens: rows are collected, written now and then, and files begun and closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from vgpu_scheduler import __version__
from vgpu_scheduler.history import (
    Event,
    Header,
    LogFile,
    Recording,
    Retention,
    Row,
    close_left_open,
    prune,
    rows_of,
)
from vgpu_scheduler.settings import HistorySettings

__all__ = ["RecorderFiles", "RecorderStats", "TakeIn"]

log = logging.getLogger(__name__)

_SEEN_EVERY: Final = 60.0
"""Seconds after which it is written that nothing has happened."""
_TRY_AGAIN_AFTER: Final = 60.0
"""Seconds for which nothing is tried again where a file could not be written."""

TakeIn = Callable[..., Iterable[Event]]
"""Takes something in: called with what is written so far, the time, and what there is to be taken in."""


@dataclass(slots=True)
class RecorderStats:
    """What was written, for metrics."""

    written: int = 0
    dropped: int = 0
    failed: int = 0
    """How often a file could not be written or deleted."""


class RecorderFiles:
    """The files, of which one is written to.

    Parameters
    ----------
    settings, decisive, run
        As for the recorder.
    recording
        Knows what is news.
    stats
        Where it is counted.
    hashed
        Hashes the names in events, or leaves them.
    """

    def __init__(
        self,
        settings: HistorySettings,
        decisive: dict[str, Any],
        run: str,
        recording: Recording,
        stats: RecorderStats,
        hashed: Callable[[Iterable[Event]], Iterable[Event]],
    ) -> None:
        assert settings.directory is not None
        self._hashed = hashed
        self._settings = settings
        self._directory = settings.directory
        self._decisive = decisive
        self._name = run
        self._recording = recording
        self._stats = stats
        self._numbers = count(1)
        self._file: LogFile | None = None
        self._rows: list[Row] = []
        self._last = 0.0
        self._wrote_at = 0.0
        self._not_before = 0.0

    def tidy(self) -> None:
        """Close what others have left open."""
        for problem in close_left_open(self._directory):
            self._failed(problem)

    def take(self, at: float, take: TakeIn, what: tuple[Any, ...]) -> None:
        """Take in something that happened."""
        self._last = max(self._last, at)
        for row in rows_of(self._hashed(take(self._recording, at, *what))):
            self._rows.append(row if row.at >= self._last else row._replace(at=self._last))

    def begin_anew(self) -> None:
        """Begin a file that does not go on where the last one ends, but with what is there now."""
        self._write()
        self._close()
        next(self._numbers)
        self._open()

    def flush(self, now: float) -> None:
        """Write what was taken in, and begin a new file where the last is large or old enough."""
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
        """Write the rest, and the end of the stream; the next leader closes the file, for that may take its time."""
        self._rows.append(Row(max(now, self._last), "seen"))
        self._write()
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.finish()
        except (OSError, ValueError) as error:
            self._failed(f"{file.path}: {error}")

    def _open(self) -> None:
        """Begin a file with what is there now."""
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
            picture = list(rows_of(self._hashed(self._recording.picture(self._last)), first=True))
            self._file.write(picture)
            self._stats.written += len(picture)
            self._wrote_at = self._last
        except (OSError, ValueError) as error:
            if self._file is not None:
                self._file.discard()
                self._file = None
            self._give_up(error)

    def _write(self) -> None:
        """Write the rows that wait; where that cannot be, a later file begins with what there is then."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        if self._file is None and self._last >= self._not_before:
            self._open()
            self._stats.dropped += len(rows)  # what they say is among what is there
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
        """Write nothing for a while."""
        self._failed(f"{self._directory}: {error}; nothing is written for {_TRY_AGAIN_AFTER:.0f} s")
        self._not_before = self._last + _TRY_AGAIN_AFTER
        if self._file is not None:
            self._file.abandon()
            self._file = None
        next(self._numbers)  # the next file does not go on where this one ended

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
            kept = self._settings
            prune(self._directory, Retention(kept.keep_files, kept.file_hours, kept.file_megabytes))
        except (OSError, ValueError) as error:
            self._failed(f"{file.path}: {error}")

    def _failed(self, text: str) -> None:
        self._stats.failed += 1
        log.warning("history: %s", text)
