"""How much of a log is kept, by what its files cover: names and sizes of closed files tell that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from vgpu_scheduler.history.log import CLOSED, NAME_TIME

__all__ = ["Retention", "prune"]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a log is kept.

    Attributes
    ----------
    files
        How many files that were closed because they were old or large enough.
    hours, megabytes
        When they are. Other files, of runs that ended early, count by the part of either that they have.
    """

    files: int
    hours: float
    megabytes: float


def prune(directory: Path, retention: Retention) -> None:
    """Delete the oldest closed files, so that no more are left than these.

    Raises
    ------
    OSError
        If one cannot be deleted.
    """
    newer, after = 0.0, None
    for path in sorted(directory.glob(f"*{CLOSED}"), reverse=True):
        if newer >= retention.files:
            path.unlink(missing_ok=True)
        else:
            newer += _weight(path, after, retention)
            after = path


def _weight(path: Path, after: Path | None, retention: Retention) -> float:
    """Return for how much a file counts of one that was closed because it was old or large enough.

    Parameters
    ----------
    after
        The one that follows it; None for the last, which counts as a whole one.
    """
    one, other = _Named.of(path), None if after is None else _Named.of(after)
    if one is None or other is None or (one.run, one.number + 1) == (other.run, other.number):
        return 1.0
    hours = (other.began - one.began).total_seconds() / 3600.0
    size = path.stat().st_size / 2**20
    return min(max(hours / retention.hours, size / retention.megabytes), 1.0)


class _Named(NamedTuple):
    """What the name of a file says."""

    began: datetime
    run: str
    number: int

    @classmethod
    def of(cls, path: Path) -> _Named | None:
        """Return what a name says, None if it is no name of a log's file."""
        time, _, rest = path.stem.partition("-")
        run, _, number = rest.rpartition("-")
        try:
            return cls(datetime.strptime(time, NAME_TIME).replace(tzinfo=UTC), run, int(number))
        except ValueError:
            return None
