"""Keeps what was seen in a folder, so that a watch may end and another one goes on.

``record.json`` is put in the place of the one before in one step. ``history.jsonl.gz`` grows: what was added since the
last time is a member of its own, so that one that was not written whole costs no more than itself.
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

_RECORD: Final = "record.json"
_SETTINGS: Final = "settings.json"
_LOCK: Final = ".lock"
"""Is locked by whoever writes; what dies leaves it unlocked."""
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_HISTORY: Final = "history.jsonl.gz"
_AT_ONCE: Final = 2**16
"""Bytes that are read at once."""
_GZIP: Final = 31
"""What zlib calls that format."""
_BEGINS: Final = gzip.compress(b"", mtime=0)[:8]
"""With what a member begins: there is no other sign of it behind one that is torn."""


class StateError(Exception):
    """What a folder holds is no record that can go on."""


class ShadowFolder:
    """A folder with what was seen.

    Parameters
    ----------
    folder
        Is made where it is not there.

    Attributes
    ----------
    torn
        How many members of the history were not written whole, as far as it was read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[bytes] = []
        self.torn = 0

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Keep other processes from writing into the folder; tell whether its file system can do that.

        Raises
        ------
        StateError
            If one does.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateError(f"{self._folder}: another process watches, and writes into this folder") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                is_locked = False
            else:
                is_locked = True
            yield is_locked

    def load(self) -> Record | None:
        """Return the record of the folder; None where there is none.

        Raises
        ------
        StateError
            If it cannot be read, or is of another version.
        """
        file = self._folder / _RECORD
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"{file}: {error}") from None
        if found.version != VERSION:
            raise StateError(f"{file}: it is of version {found.version}, and this program writes {VERSION}")
        return found

    def keep_settings(self, objects: Sequence[Object]) -> None:
        """Write the objects that hold the settings under which this scheduler chose."""
        self._put(_SETTINGS, msgspec.json.encode(objects))

    def settings(self) -> list[Object]:
        """Return the objects that hold the settings; none where none were written."""
        try:
            found: list[Object] = msgspec.json.decode((self._folder / _SETTINGS).read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError):
            return []
        return found

    def write(self, line: LogEntry) -> None:
        """Take a line of the log of changes, which is written with the next record."""
        self._lines.append(msgspec.json.encode(line))

    def save(self, record: Record) -> None:
        """Write the record and the lines."""
        if self._lines:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / _HISTORY).open("ab") as file:
                file.write(gzip.compress(b"\n".join(self._lines) + b"\n", mtime=0))
                _reach_disk(file)
            self._lines.clear()
        self._put(_RECORD, msgspec.json.encode(record))

    def _put(self, name: str, content: bytes) -> None:
        """Put a file in the place of the one before in one step."""
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{name}.new"
        with new.open("wb") as file:
            file.write(content)
            _reach_disk(file)
        new.replace(self._folder / name)

    def lines(self) -> Iterator[LogEntry]:
        """Yield the lines that were written whole; ``torn`` says of how many members that was not true."""
        self.torn = 0
        for member in self._members():
            reader = zlib.decompressobj(wbits=_GZIP)
            try:
                text = reader.decompress(member)
            except zlib.error:
                text = b""
            self.torn += not reader.eof or bool(reader.unused_data)  # the latter: hardly begun
            if not reader.eof:
                continue
            for line in text.splitlines():
                yield msgspec.json.decode(line, type=LogEntry)

    def _members(self) -> Iterator[bytes]:
        """Yield the members, each from the bytes with which it begins to those with which the next one does."""
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
