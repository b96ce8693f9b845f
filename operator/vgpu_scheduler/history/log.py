"""The log on disk: a stream of Arrow batches while it is written, a Parquet file once it is closed.

A stream can be read up to where it was torn, a Parquet file cannot. Each file begins with all that was there, so that
older ones can be deleted, and what one lacks ends with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from vgpu_scheduler.history.encoding import FIRST, FORMAT, LogError, Row, RowReader, is_time
from vgpu_scheduler.history.events import Event

__all__ = [
    "CLOSED",
    "NAME_TIME",
    "OPEN",
    "Header",
    "LogFile",
    "LogSegment",
    "PyarrowMissingError",
    "check_arrow",
    "close_left_open",
    "read_part",
]

CLOSED, OPEN = ".parquet", ".arrows"
"""How the names of files end that are closed, and of those that are written to."""
_KEY: Final = b"vgpu-scheduler.history"
_TMP: Final = ".tmp"
NAME_TIME: Final = "%Y%m%dT%H%M%SZ"
"""How the name of a file says when it begins."""
_GROUP_ROWS: Final = 100_000
"""Rows of a row group of a closed file, at most as many as are in one batch more."""
_GROUP_BYTES: Final = 64 * 2**20
"""Bytes of one in memory, likewise."""


class PyarrowMissingError(Exception):
    """The library that reads and writes the files is not installed."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself.

    Attributes
    ----------
    began
        Since when it is written, in seconds since the epoch.
    run, number
        Whose files follow each other without a gap, and the how many-th of them this is.
    program
        The version of the program that has written it.
    settings
        Those that decide, as they are written in a file of settings.
    hashed
        Whether the names of pods and namespaces are hashed.
    format
        See FORMAT.
    """

    began: float
    run: str
    number: int
    program: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    hashed: bool = False
    format: int = FORMAT

    @property
    def name(self) -> str:
        """The name of the file, without its ending: in the order of time."""
        return f"{datetime.fromtimestamp(self.began, UTC):{NAME_TIME}}-{self.run}-{self.number:06d}"


@dataclass(frozen=True, slots=True)
class LogSegment:
    """What a file holds.

    Attributes
    ----------
    ended
        Up to when it says what happened.
    first, events
        What was there in the beginning, and what happened then.
    problem
        What is wrong with the file, a sentence; empty if nothing is.
    """

    path: Path
    header: Header
    ended: float
    first: Sequence[Event]
    events: Sequence[Event]
    problem: str = ""


def _arrow() -> Any:
    """Return the library.

    Raises
    ------
    PyarrowMissingError
        If it is not installed.
    """
    try:
        arrow = import_module("pyarrow")  # an optional extra, large, and used only here
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise PyarrowMissingError("logs need the package pyarrow: pip install 'vgpu-scheduler[history]'") from error
    return arrow


def check_arrow() -> None:
    """Check that the library is installed.

    Raises
    ------
    PyarrowMissingError
        If it is not.
    """
    _arrow()


def _schema(arrow: Any, header: Header) -> Any:
    texts = [arrow.field(name, arrow.string()) for name in ("event", "kind", "name", "uid", "node")]
    fields = [arrow.field("at", arrow.float64()), *texts, arrow.field("body", arrow.binary())]
    return arrow.schema(fields, metadata={_KEY: json.dumps(asdict(header)).encode()})


class LogFile:
    """A file that is written to.

    Parameters
    ----------
    directory
        Where it is.
    header
        What it says of itself.

    Raises
    ------
    OSError
        If it cannot be made.
    PyarrowMissingError
        If the library is not installed.
    """

    def __init__(self, directory: Path, header: Header) -> None:
        arrow = _arrow()
        self.header = header
        self.path = directory / f"{header.name}{OPEN}"
        self._arrow = arrow
        self._schema = _schema(arrow, header)
        directory.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        options = arrow.ipc.IpcWriteOptions(compression="zstd")
        try:
            self._stream = arrow.ipc.new_stream(self._file, self._schema, options=options)
        except BaseException:
            self.discard()
            raise

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return self._file.tell()

    def write(self, rows: Iterable[Row]) -> None:
        """Write rows as one batch, which is read as a whole or not at all.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        columns = list(zip(*rows, strict=True))
        if columns:
            arrays = [self._arrow.array(column, each.type) for column, each in zip(columns, self._schema, strict=True)]
            self._stream.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
            self._file.flush()

    def finish(self) -> None:
        """Write its end, and leave the stream as it is.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        with suppress(ValueError):  # closed already
            self._stream.close()
        self._file.close()

    def close(self) -> Path:
        """Close it, and make a Parquet file of it, which is smaller; return that.

        Raises
        ------
        OSError
            If it cannot be written; what was written is there still.
        """
        self.finish()
        return _closed(self.path)

    def abandon(self) -> None:
        """Write nothing more; what was written stays."""
        with suppress(OSError, ValueError):
            self._file.close()

    def discard(self) -> None:
        """Delete it: nothing whole was written to it."""
        self.abandon()
        with suppress(OSError):
            self.path.unlink()


def _closed(path: Path) -> Path:
    """Make a Parquet file of what is whole of a stream, and delete the stream.

    Of a stream of which nothing is whole, no file is made.
    """
    arrow = _arrow()
    target = path.with_suffix(CLOSED)
    unfinished = target.with_suffix(CLOSED + _TMP)
    written = 0
    try:
        with path.open("rb") as file, unfinished.open("wb") as output:
            for stream in _stream_of(arrow, file):
                with arrow.parquet.ParquetWriter(output, stream.schema, compression="zstd") as writer:
                    for table in _large_tables(arrow, stream):
                        writer.write_table(table, row_group_size=table.num_rows)
                        written += table.num_rows
            output.flush()
            os.fsync(output.fileno())
        if written:
            unfinished.replace(target)
        path.unlink()
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _stream_of(arrow: Any, file: BinaryIO) -> Iterator[Any]:
    """Yield the stream that a file holds; nothing where its schema was torn."""
    with suppress(arrow.ArrowInvalid, OSError):
        yield arrow.ipc.open_stream(file)


def _large_tables(arrow: Any, stream: Any) -> Iterator[Any]:
    """Yield the batches of a stream together, so many that each becomes one row group of a good size."""
    batches: list[Any] = []
    rows = size = 0
    for batch in _whole_batches(stream):
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield arrow.Table.from_batches(batches).combine_chunks()
            batches, rows, size = [], 0, 0
    if batches:
        yield arrow.Table.from_batches(batches).combine_chunks()


def _whole_batches(stream: Any) -> Iterator[Any]:
    """Yield the batches of a stream up to its end, or to where it was torn."""
    arrow = _arrow()
    with suppress(StopIteration, arrow.ArrowInvalid, OSError):
        while True:
            yield stream.read_next_batch()


def close_left_open(directory: Path) -> list[str]:
    """Close the files of runs that have ended without that; return what went wrong, a sentence each.

    Closed files that hold nothing are deleted.
    """
    problems = []
    for path in sorted(directory.glob(f"*{CLOSED}")):
        with suppress(OSError, ValueError):
            if not _arrow().parquet.read_metadata(path).num_rows:
                path.unlink()
    for path in sorted(directory.glob(f"*{OPEN}")):
        try:
            _closed(path)
        except (OSError, ValueError) as error:
            problems.append(f"{path}: {error}")
    for path in directory.glob(f"*{CLOSED}{_TMP}"):
        with suppress(OSError):
            path.unlink()
    return problems


def read_part(path: Path) -> LogSegment:
    """Read a file of a log.

    Raises
    ------
    LogError
        If it is none, or cannot be understood; the message names file, row and field.
    PyarrowMissingError
        If the library is not installed.
    """
    arrow = _arrow()
    try:
        batches, schema, problem = _batches(arrow, path)
    except (OSError, ValueError) as error:
        reason = "its end is missing" if path.suffix == CLOSED else f"{error}"
        raise LogError(f"{path}: it cannot be read: {reason}") from None
    header = _header(path, schema)
    reader, first, events, ended, number = RowReader(), list[Event](), list[Event](), header.began, 0
    for batch in batches:
        for name, column in zip(Row._fields, batch.columns, strict=True):
            if column.null_count:
                raise LogError(f"{path}: rows {number + 1} to {number + batch.num_rows}: {name}: it is missing in one")
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            row, number = Row(*values), number + 1
            try:
                event = reader.event(row)
            except LogError as error:
                raise LogError(f"{path}: row {number}: {error}") from None
            ended = max(ended, row.at)
            if event is not None:
                (first if row.event in FIRST else events).append(event)
    return LogSegment(path, header, ended, first, events, problem)


def _batches(arrow: Any, path: Path) -> tuple[Sequence[Any], Any, str]:
    """Return the batches of a file, its schema, and what is wrong with it."""
    if path.suffix != OPEN:
        table = arrow.parquet.read_table(path)
        return table.to_batches(), table.schema, ""
    batches, problem = [], ""
    with path.open("rb") as file:
        stream = arrow.ipc.open_stream(file)
        try:
            for batch in stream:
                batches.append(batch)  # noqa: PERF402 - what was read before it is torn counts
        except (OSError, ValueError):
            problem = f"{path} was torn: it is read up to there"
    return batches, stream.schema, problem


def _header(path: Path, schema: Any) -> Header:
    raw = (schema.metadata or {}).get(_KEY)
    names = [each.name for each in schema]
    if raw is None or names != list(Row._fields):
        raise LogError(f"{path}: it is no log of vgpu-scheduler")
    for field_ in schema:
        if field_.type != _schema(_arrow(), Header(0.0, "", 0)).field(field_.name).type:
            raise LogError(f"{path}: column {field_.name}: it is of type {field_.type}")
    try:
        written = msgspec.json.decode(raw, type=_Written)
        if written.format != FORMAT:
            told = f"it is of format {written.format}, written by version {written.program or 'unknown'}"
            raise LogError(f"{path}: {told}; this program reads format {FORMAT}")
        header = msgspec.json.decode(raw, type=Header)
    except msgspec.DecodeError as error:
        raise LogError(f"{path}: header: {error}") from None
    if not is_time(header.began):
        raise LogError(f"{path}: header: began: {header.began} is no time")
    return header


class _Written(msgspec.Struct):
    """By which program a header was written."""

    format: int = 0
    program: str = ""
