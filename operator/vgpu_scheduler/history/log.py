"""The log on disk: a stream of Arrow batches while it is being written, a Parquet file once it is closed.

A truncated stream can be read up to its end, a Parquet file cannot. Each file begins with the full state, so that older
files can be deleted, and so that a gap in one file ends with the next.
"""

from __future__ import annotations

import fcntl
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
from vgpu_scheduler.history.events import HistoryEvent

CLOSED, OPEN = ".parquet", ".arrows"
"""The suffixes of closed files, and of files that are being written."""
_KEY: Final = b"vgpu-scheduler.history"
_TMP: Final = ".tmp"
NAME_TIME: Final = "%Y%m%dT%H%M%SZ"
"""The format of the beginning time in file names."""
_GROUP_ROWS: Final = 100_000
"""The number of rows from which a row group of a closed file is complete."""
_GROUP_BYTES: Final = 64 * 2**20
"""The number of bytes in memory from which a row group is complete."""


class PyarrowMissingError(Exception):
    """The library for these files is not installed."""


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata of a log file.

    Attributes
    ----------
    began
        When the file begins, in seconds since the epoch.
    run, number
        The run, within which files follow each other without a gap, and the file's number in it.
    program
        The version of the program that wrote it.
    settings
        The settings that affect decisions, as in a settings file.
    hashed
        Whether the names of pods and namespaces are hashed.
    format
        The row format; see ``FORMAT``.
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
        """The name of the file without suffix; names sort by time."""
        return f"{datetime.fromtimestamp(self.began, UTC):{NAME_TIME}}-{self.run}-{self.number:06d}"


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The contents of a log file.

    Attributes
    ----------
    ended
        The time up to which the file is complete.
    first, events
        The initial state, and the events after it.
    problem
        A sentence about a problem of the file; empty if there is none.
    """

    path: Path
    header: Header
    ended: float
    first: Sequence[HistoryEvent]
    events: Sequence[HistoryEvent]
    problem: str = ""


def _arrow() -> Any:
    """Import pyarrow.

    Raises
    ------
    PyarrowMissingError
        If it is not installed.
    """
    try:
        arrow = import_module("pyarrow")  # an optional extra, large, and used only here
        import_module("pyarrow.parquet")
    except ImportError as error:
        raise PyarrowMissingError(
            "history logs need the package pyarrow: pip install 'vgpu-scheduler[history]'"
        ) from error
    return arrow


def check_arrow() -> None:
    """Check that pyarrow is installed.

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
    """A log file that is being written; it is locked meanwhile, so that no other process converts it.

    Parameters
    ----------
    directory
        The directory of the file.
    header
        The metadata of the file.

    Raises
    ------
    OSError
        If the file cannot be created.
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
        if not _locked(self._file) or not _exists(self._file):
            self.abandon()
            raise BlockingIOError(f"{self.path}: another process converts it already")
        options = arrow.ipc.IpcWriteOptions(compression="zstd")
        try:
            self._stream = arrow.ipc.new_stream(self._file, self._schema, options=options)
        except BaseException:
            self.discard()
            raise

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._file.tell()

    def write(self, rows: Iterable[Row]) -> None:
        """Write rows as one batch, which is read completely or not at all.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        columns = list(zip(*rows, strict=True))
        if columns:
            arrays = [self._arrow.array(column, each.type) for column, each in zip(columns, self._schema, strict=True)]
            self._stream.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
            self._file.flush()

    def finish(self) -> None:
        """Write the end of the stream, without converting it.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        with suppress(ValueError):  # already closed
            self._stream.close()
        self._file.close()

    def close(self) -> Path:
        """Close the file and convert it to Parquet, which is smaller; return the path of the result.

        Raises
        ------
        OSError
            If that cannot be written; the stream then still exists.
        """
        self.finish()
        return _closed(self.path)

    def abandon(self) -> None:
        """Stop writing; the file stays."""
        with suppress(OSError, ValueError):
            self._file.close()

    def discard(self) -> None:
        """Delete the file, which has no complete batch."""
        self.abandon()
        with suppress(OSError):
            self.path.unlink()


def _locked(file: BinaryIO) -> bool:
    """Lock a file until it is closed; return False if a process that writes or converts it holds the lock.

    On a file system without locks each process gets the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _exists(file: BinaryIO) -> bool:
    """Tell whether an open file still has a name: another process may delete it before it is locked."""
    return os.fstat(file.fileno()).st_nlink > 0


def _opened(path: Path) -> BinaryIO:
    """Open a file to read it; for writing, too, if allowed: network file systems lock only such files."""
    try:
        return path.open("r+b")
    except PermissionError:  # another user's
        return path.open("rb")


def _closed(path: Path) -> Path:
    """Convert the complete batches of a stream to a Parquet file, and delete the stream.

    If there is no complete batch, no file is made. A stream that another process writes or converts stays.
    """
    arrow = _arrow()
    target = path.with_suffix(CLOSED)
    unfinished = target.with_suffix(CLOSED + _TMP)
    written = 0
    with _opened(path) as file:
        if not _locked(file) or not _exists(file):
            return target
        try:
            with unfinished.open("wb") as output:
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
    """Yield the stream in a file; nothing if its schema is truncated."""
    with suppress(arrow.ArrowInvalid, OSError):
        yield arrow.ipc.open_stream(file)


def _large_tables(arrow: Any, stream: Any) -> Iterator[Any]:
    """Yield batches combined into tables, each of the size of one row group."""
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
    """Yield the batches of a stream up to its end, or to where it is truncated."""
    arrow = _arrow()
    with suppress(StopIteration, arrow.ArrowInvalid, OSError):
        while True:
            yield stream.read_next_batch()


def close_left_open(directory: Path) -> list[str]:
    """Close the files that nobody writes any more; return errors, a sentence each.

    Closed files without rows are deleted.
    """
    problems = []
    for path in sorted(directory.glob(f"*{CLOSED}")):
        with suppress(OSError, ValueError):
            if not _arrow().parquet.read_metadata(path).num_rows:
                path.unlink()
    for path in sorted(directory.glob(f"*{OPEN}")):
        try:
            _closed(path)
        except FileNotFoundError:
            continue  # another process has closed it meanwhile
        except (OSError, ValueError) as error:
            problems.append(f"{path}: {error}")
    for path in directory.glob(f"*{CLOSED}{_TMP}"):
        with suppress(OSError):
            if not path.with_suffix("").with_suffix(OPEN).exists():  # else it is being converted, or will be again
                path.unlink()
    return problems


def read_segment(path: Path) -> LogSegment:
    """Read a log file.

    Raises
    ------
    LogError
        If it is not a log file, or cannot be understood; the message names file, row and field.
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
    reader, first, events, ended, number = RowReader(), list[HistoryEvent](), list[HistoryEvent](), header.began, 0
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
    """Return the batches of a file, its schema, and a sentence about a problem."""
    if path.suffix != OPEN:
        table = arrow.parquet.read_table(path)
        return table.to_batches(), table.schema, ""
    batches, problem = [], ""
    with path.open("rb") as file:
        stream = arrow.ipc.open_stream(file)
        try:
            for batch in stream:
                batches.append(batch)  # noqa: PERF402 - batches before a truncation are kept
        except (OSError, ValueError):
            problem = f"{path} is truncated: it is read up to there"
    return batches, stream.schema, problem


def _header(path: Path, schema: Any) -> Header:
    raw = (schema.metadata or {}).get(_KEY)
    names = [each.name for each in schema]
    if raw is None or names != list(Row._fields):
        raise LogError(f"{path}: it is not a history log of vgpu-scheduler")
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
        raise LogError(f"{path}: header: began: {header.began} is not a time")
    return header


class _Written(msgspec.Struct):
    """The fields of a header that tell its format and the program that wrote it."""

    format: int = 0
    program: str = ""
