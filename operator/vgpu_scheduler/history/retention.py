"""Limit the size of a log by deleting old files; names and sizes of files suffice to decide which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from vgpu_scheduler.history.log import CLOSED, NAME_TIME, OPEN


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a log.

    Attributes
    ----------
    files
        The number of full files to keep.
    hours, megabytes
        The age and the size at which a file is full and closed. Files of runs that ended early count as a fraction.
    """

    files: int
    hours: float
    megabytes: float


def prune(directory: Path, retention: Retention) -> None:
    """Delete the oldest files beyond the limit, also those that could not be converted.

    Call it while no file is open: the newest file counts as full.

    Raises
    ------
    OSError
        If a file cannot be deleted.
    """
    newer, after = 0.0, None
    files = (path for path in directory.glob("*") if path.suffix in {CLOSED, OPEN})
    for path in sorted(files, reverse=True):
        if newer >= retention.files:
            path.unlink(missing_ok=True)
        else:
            newer += _weight(path, after, retention)
            after = path


def _weight(path: Path, after: Path | None, retention: Retention) -> float:
    """Return the fraction of a full file that a file counts for, by age or size.

    Parameters
    ----------
    after
        The file that follows it; None for the last file, which counts as full.
    """
    one, other = _Named.of(path), None if after is None else _Named.of(after)
    if one is None or other is None or (one.run, one.number + 1) == (other.run, other.number):
        return 1.0
    hours = (other.began - one.began).total_seconds() / 3600.0
    size = path.stat().st_size / 2**20
    return min(max(hours / retention.hours, size / retention.megabytes), 1.0)


class _Named(NamedTuple):
    """The parts of a log file's name."""

    began: datetime
    run: str
    number: int

    @classmethod
    def of(cls, path: Path) -> _Named | None:
        """Parse a name; None if it is not that of a log file."""
        time, _, rest = path.stem.partition("-")
        run, _, number = rest.rpartition("-")
        try:
            return cls(datetime.strptime(time, NAME_TIME).replace(tzinfo=UTC), run, int(number))
        except ValueError:
            return None
