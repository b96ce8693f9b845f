"""Stores the record of a shadow run in a folder, so that a later run can continue it.

``record.json`` is replaced atomically, and the more rarely, the larger it is. ``history.jsonl.gz`` grows: each save
appends a gzip member, so that an incomplete write loses only its own member.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from vgpu_scheduler.kube import Object
from vgpu_scheduler.shadow import LogEntry, Record
from vgpu_scheduler.shadow.records import VERSION


class _Versioned(msgspec.Struct):
    """What records of all versions have."""

    version: int = 1


_RECORD: Final = "record.json"
_SETTINGS: Final = "settings.json"
_LOCK: Final = ".lock"
"""The lock file of the writing process; the lock ends with the process."""
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_HISTORY: Final = "history.jsonl.gz"
_RATE: Final = 50_000
"""The most bytes of records to write per second, on average."""
_LONGEST: Final = 900.0
"""The longest time between two writes of a record (seconds)."""
_AT_ONCE: Final = 2**16
"""Bytes to read at a time."""
_GZIP: Final = 31
"""zlib's number for the gzip format."""
_BEGINS: Final = gzip.compress(b"", mtime=0)[:8]
"""The first bytes of each member; only they show where the next member begins after an incomplete one."""


class StateError(Exception):
    """The content of a folder is not a record that can be continued."""


class ShadowFolder:
    """A folder with the record of a shadow run.

    Parameters
    ----------
    folder
        The folder; created if it does not exist.

    Attributes
    ----------
    truncated
        The number of incomplete members of the history, as far as it was read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[bytes] = []
        self._due = 0.0
        self.truncated = 0

    @property
    def why_empty(self) -> str:
        """Say of a folder without a record that it has none, or does not exist."""
        exists = self._folder.exists()
        return f"there is no record in {self._folder} yet" if exists else f"there is no folder {self._folder}"

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Lock the folder against other processes; yield whether its file system supports locks.

        Raises
        ------
        StateError
            If another process holds the lock.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"{self._folder}: another process watches and writes into this folder") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                is_locked = False
            else:
                is_locked = True
            yield is_locked

    def load(self) -> Record | None:
        """Return the record in the folder; None if there is none.

        Raises
        ------
        StateError
            If the record cannot be read, or is of another version.
        """
        file = self._folder / _RECORD
        try:
            written = file.read_bytes()
            version = msgspec.json.decode(written, type=_Versioned).version
            if version != VERSION:
                reads = f"this program reads {VERSION}: give another folder to --state"
                raise StateError(f"{file}: it is of version {version}, and {reads}")
            return msgspec.json.decode(written, type=Record)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"{file}: {error}") from None

    def keep_settings(self, objects: Sequence[Object]) -> None:
        """Write the objects with the settings that this scheduler used."""
        self._put(_SETTINGS, msgspec.json.encode(objects))

    def settings(self) -> list[Object]:
        """Return the objects with the settings; none if none were written."""
        try:
            found: list[Object] = msgspec.json.decode((self._folder / _SETTINGS).read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError):
            return []
        return found

    def write(self, line: LogEntry) -> None:
        """Queue a line of the log of changes, to be written with the next record."""
        self._lines.append(msgspec.json.encode(line))

    def keep_up(self, record: Record, now: float) -> None:
        """Write the queued lines, and the record if it is due.

        Parameters
        ----------
        now
            The time by a monotonic clock.
        """
        if now < self._due:
            self._write_lines()
            return
        size = self.save(record)
        self._due = now + min(size / _RATE, _LONGEST)

    def save(self, record: Record) -> int:
        """Write the record and the queued lines; return the size of the record in bytes."""
        self._write_lines()
        content = msgspec.json.encode(record)
        self._put(_RECORD, content)
        return len(content)

    def _write_lines(self) -> None:
        if self._lines:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / _HISTORY).open("ab") as file:
                file.write(gzip.compress(b"\n".join(self._lines) + b"\n", mtime=0))
                _reach_disk(file)
            self._lines.clear()

    def _put(self, name: str, content: bytes) -> None:
        """Replace a file atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{name}.new"
        with new.open("wb") as file:
            file.write(content)
            _reach_disk(file)
        new.replace(self._folder / name)

    def lines(self) -> Iterator[LogEntry]:
        """Yield the lines of complete members, and count incomplete ones in ``truncated``."""
        self.truncated = 0
        for member in self._members():
            reader = zlib.decompressobj(wbits=_GZIP)
            try:
                text = reader.decompress(member)
            except zlib.error:
                text = b""
            self.truncated += not reader.eof or bool(reader.unused_data)  # unused data: a member that had barely begun
            if not reader.eof:
                continue
            for line in text.splitlines():
                yield msgspec.json.decode(line, type=LogEntry)

    def _members(self) -> Iterator[bytes]:
        """Yield the members, each from its first bytes to the first bytes of the next one."""
        name = self._folder / _HISTORY
        if not name.exists():
            return
        rest = b""
        with name.open("rb") as file:
            while part := file.read(_AT_ONCE):
                first, *more = (rest + part).split(_BEGINS)
                if more:
                    yield from (each for each in (first, *(_BEGINS + each for each in more[:-1])) if each)
                    rest = _BEGINS + more[-1]
                else:
                    rest = first
        if rest:
            yield rest


def _reach_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
