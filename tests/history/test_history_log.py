"""What was observed is written, read back as it was, and decides the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engine.builders import OURS
from tests.history.recorded import BEGAN, fleet, options, played, waiting, written
from tests.policy.resources import policy, policy_object

from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Decided,
    Departed,
    HistoryEvent,
    MissedEvents,
    Removed,
    Withdrawn,
    replay,
)
from vgpu_scheduler.history.encoding import LogError, Row, RowReader, rows_of
from vgpu_scheduler.history.joining import joined
from vgpu_scheduler.history.log import CLOSED, Header, LogFile, close_left_open, read_segment
from vgpu_scheduler.history.retention import Retention, prune
from vgpu_scheduler.kube import Namespace
from vgpu_scheduler.policy import decode_policy

HEADER = Header(BEGAN, "run", 1, "test", {"preemption": True})


def as_rows(events: Iterable[HistoryEvent]) -> list[Any]:
    return list(rows_of(events))


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_written_is_read_back(tmp_path: Path, *, closed: bool) -> None:
    past = played(1, [policy("spread", {"nodes": {"policy": "spread"}})], pods=20)
    file = written(tmp_path, past)
    if closed:
        assert file.close() == next(tmp_path.iterdir())
    else:
        file.abandon()

    segment = read_segment(next(tmp_path.iterdir()))

    assert segment.problem == ""
    assert segment.header == HEADER
    found, problems = joined([segment])
    assert problems == []
    assert as_rows(found.events) == as_rows(past.events)
    assert list(rows_of(found.first, first=True)) == list(rows_of(past.first, first=True))
    again, before = replay(found, options()), replay(past, options())
    assert again.pods == before.pods


def test_all_kinds_of_events_and_policies_come_back() -> None:
    broken = {**policy_object("broken", {}), "spec": {"selector": {"matchLabels": {"a": "b"}}, "nodes": {"x": 1}}}
    evictions = [{"time": "2026-01-01T00:00:00Z", "pod": "ns/p", "uid": "u", "node": "n"}]
    status = {**policy_object("status", {"nodes": {"policy": "binpack"}}), "status": {"evictions": evictions}}
    objects = [("ClusterVGPUPolicy", decode_policy(each)) for each in (broken, status)]
    objects += [("Namespace", Namespace("team", {"tier": "shared"}))]
    events = [
        *(Changed(BEGAN, kind, value) for kind, value in objects),
        Removed(BEGAN, *objects[2]),
        Departed(BEGAN, "uid"),
        Decided(BEGAN, "uid", "node", {"a": "b"}, OURS, ("one", "two")),
        Withdrawn(BEGAN, "uid"),
        MissedEvents(BEGAN, 3, "the disk was full"),
        Arrived(BEGAN, waiting("p")),
    ]

    reader = RowReader()
    found = [reader.event(row) for row in rows_of(events)]

    assert found[:-1] == events[:-1]
    assert as_rows([found[-1]]) == as_rows([events[-1]])


def test_who_waits_in_the_beginning_is_told_from_the_pods_of_other_schedulers() -> None:
    announced = msgspec.structs.replace(waiting("theirs"), scheduler_name="default-scheduler")
    first = [Changed(BEGAN, "Pod", announced), Arrived(BEGAN, waiting("ours"))]

    reader = RowReader()
    found = [reader.event(row) for row in rows_of(first, first=True)]

    assert [type(each) for each in found] == [Changed, Arrived]


def test_pods_that_ask_the_same_share_one_spec_again() -> None:
    reader = RowReader()
    first, second = (reader.event(row) for row in rows_of([Arrived(BEGAN, waiting(name)) for name in "ab"]))
    assert isinstance(first, Arrived)
    assert isinstance(second, Arrived)
    assert first.pod.spec is second.pod.spec


def test_a_torn_file_is_read_up_to_where_it_is_whole(tmp_path: Path) -> None:
    past = played(2, pods=30)
    file = written(tmp_path, past)
    file.abandon()
    whole = file.path.read_bytes()
    counts = []
    for cut in (len(whole) - 20, len(whole) * 2 // 3, len(whole) // 2):
        file.path.write_bytes(whole[:cut])
        segment = read_segment(file.path)
        assert segment.problem == f"{file.path} is truncated: it is read up to there"
        counts.append(len(segment.events))
        assert as_rows(segment.events) == as_rows(past.events[: len(segment.events)])
    assert sorted(counts, reverse=True) == counts
    assert counts[-1] < len(past.events)

    assert close_left_open(tmp_path) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [CLOSED]
    assert len(read_segment(file.path.with_suffix(CLOSED)).events) == counts[-1]


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    text = tmp_path / f"a{CLOSED}"
    text.write_text("no Parquet")
    with pytest.raises(LogError, match=r"a\.parquet: it cannot be read: its end is missing"):
        read_segment(text)
    other = LogFile(tmp_path, replace(HEADER, format=99, program="9.9"))
    other.write([Row(BEGAN, "seen")])
    path = other.close()
    with pytest.raises(LogError, match=r"of format 99, written by version 9\.9; this program reads format 1"):
        read_segment(path)
    file = LogFile(tmp_path, replace(HEADER, number=2))
    rows = list(rows_of([Arrived(BEGAN, waiting("p"))]))
    file.write([rows[0], rows[0]._replace(body=b"\x01")])
    with pytest.raises(LogError, match=r"row 2: arrived Pod default/p: Expected `object`, got `int`"):
        read_segment(file.close())


def test_a_closed_file_of_many_batches_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.history.log._GROUP_ROWS", 150)
    past = played(3, pods=150)
    file = written(tmp_path, past, batch=1)
    open_bytes = file.size

    path = file.close()

    assert pq.read_metadata(path).num_row_groups == 2
    assert path.stat().st_size < open_bytes / 10
    assert as_rows(read_segment(path).events) == as_rows(past.events)


def crafted(folder: Path, header: bytes, at: Any = BEGAN) -> Path:
    """Write a closed file with any header, and one row."""
    path = some_file(folder, BEGAN)
    table = pq.read_table(path).replace_schema_metadata({b"vgpu-scheduler.history": header})
    pq.write_table(table.set_column(0, "at", pa.array([at], pa.float64())), path)
    return path


@pytest.mark.parametrize(("header", "message"), [
    ("[]", "header: Expected `object`"),
    ("{", "header: Input data was truncated"),
    (json.dumps({**asdict(HEADER), "began": "x"}), r"header: Expected `float`, got `str` - at `\$.began`"),
    (json.dumps({**asdict(HEADER), "began": 1e300}), r"header: began: 1e\+300 is not a time"),
    (json.dumps({**asdict(HEADER), "format": 99, "settings": 7}), "it is of format 99"),
])  # fmt: skip
def test_a_header_that_cannot_be_understood_is_named(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(LogError, match=rf"run-000001\.parquet: {message}"):
        read_segment(crafted(tmp_path, header.encode()))


def test_a_header_of_a_later_version_may_say_more(tmp_path: Path) -> None:
    found = read_segment(crafted(tmp_path, json.dumps({**asdict(HEADER), "more": 1}).encode()))
    assert found.header == HEADER


@pytest.mark.parametrize(("at", "message"), [
    (None, "rows 1 to 1: at: it is missing in one"),
    (float("nan"), "row 1: seen: at: nan is not a time"),
    (float("inf"), "row 1: seen: at: inf is not a time"),
])  # fmt: skip
def test_a_row_without_a_time_is_named(tmp_path: Path, at: float | None, message: str) -> None:
    with pytest.raises(LogError, match=message):
        read_segment(crafted(tmp_path, json.dumps(asdict(HEADER)).encode(), at))


KEEPS_TWO = Retention(2, hours=1.0, megabytes=64)


def some_file(folder: Path, began: float, run: str = "run", number: int = 1) -> Path:
    """Write a file that holds something, and close it."""
    file = LogFile(folder, replace(HEADER, began=began, run=run, number=number))
    file.write([Row(began, "seen")])
    return file.close()


def test_the_oldest_files_are_deleted(tmp_path: Path) -> None:
    for number in range(4):
        some_file(tmp_path, BEGAN + number, number=number)
    prune(tmp_path, KEEPS_TWO)
    assert [read_segment(path).header.number for path in sorted(tmp_path.iterdir())] == [2, 3]


def test_what_a_full_disk_leaves_pushes_out_no_file(tmp_path: Path) -> None:
    kept = [some_file(tmp_path, BEGAN + number, number=number) for number in range(2)]
    whole = some_file(tmp_path / "other", BEGAN)
    for number in range(6):
        file = LogFile(tmp_path, replace(HEADER, began=BEGAN + 60 * number + 60, run="full", number=number))
        file.write(rows_of([Changed(BEGAN, "Node", fleet(1)[0])], first=True))
        file.abandon()
        size = file.path.stat().st_size
        os.truncate(file.path, (0, 100, size - 200)[number % 3])
    nothing = LogFile(tmp_path, replace(HEADER, began=BEGAN + 900, run="nothing"))
    pq.write_table(pq.read_table(whole).slice(0, 0), nothing.path.with_suffix(CLOSED))
    nothing.abandon()

    assert close_left_open(tmp_path) == []
    prune(tmp_path, KEEPS_TWO)

    assert sorted(tmp_path.glob("*.*")) == kept


def test_a_file_that_cannot_be_closed_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LogFile(tmp_path, HEADER)
    file.write([Row(BEGAN, "seen")])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert list(tmp_path.iterdir()) == [file.path]
    assert read_segment(file.path).problem == ""


def test_a_file_that_is_deleted_before_it_is_locked_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted(file: Any) -> bool:
        Path(file.name).unlink()
        return True

    monkeypatch.setattr("vgpu_scheduler.history.log._locked", deleted)
    with pytest.raises(BlockingIOError, match="another process converts it"):
        LogFile(tmp_path, HEADER)


def test_the_file_of_another_user_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LogFile(tmp_path, HEADER)
    file.write([Row(BEGAN, "seen")])
    file.finish()
    real = Path.open

    def of_another_user(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if mode == "r+b":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, mode, *arguments, **named)

    monkeypatch.setattr(Path, "open", of_another_user)
    assert close_left_open(tmp_path) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [CLOSED]


def test_a_stream_that_cannot_be_begun_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.ipc.new_stream", full)
    with pytest.raises(OSError, match="No space left"):
        LogFile(tmp_path, HEADER)
    assert list(tmp_path.iterdir()) == []


def test_a_crash_loop_pushes_out_no_file(tmp_path: Path) -> None:
    some_file(tmp_path, BEGAN - 3600.0, number=0)
    whole = [some_file(tmp_path, BEGAN + 3600.0 * number, number=number) for number in (1, 2)]
    for number in range(6):
        some_file(tmp_path, BEGAN + 7200.0 + 60.0 * (number + 1), run=f"crash-{number}")
    prune(tmp_path, KEEPS_TWO)
    assert len(list(tmp_path.iterdir())) == 2 + 6
    assert all(path.exists() for path in whole)
    prune(tmp_path, replace(KEEPS_TWO, files=1))
    assert [path.stem.split("-", 1)[1] for path in tmp_path.iterdir()] == ["crash-5-000001"]


# What is kept --------------------------------------------------------------------------------------------------------
