"""The files that a recorder writes, and that nothing that goes wrong with them is the leader's concern."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.engine.builders import cards, node
from tests.runtime.recorded_world import RecordedWorld, met, wait_for, world_with_a_pod

from vgpu_scheduler.history import Arrived, LogFile, close_left_open
from vgpu_scheduler.history.checking import check
from vgpu_scheduler.intake import NODES


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedWorld:
    return world_with_a_pod(tmp_path / "history", monkeypatch)


def test_files_are_closed_by_age_and_the_oldest_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = RecordedWorld(tmp_path / "history", monkeypatch, file_hours=1.0, keep_files=2)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.recorder.begin()
    for number in range(4):
        world.come(f"pod-{number}")
        wait_for(lambda: not world.recorder._queue)
        before = world.recorder._files._file
        world.clock.pass_(3700)
        wait_for(lambda before=before: world.recorder._files._file is not before)
    world.end()

    past, problems, segments = world.written()

    assert problems == []
    assert [segment.path.suffix for segment in segments] == [".parquet", ".parquet", ".arrows"]
    assert len(past.first) + len(list(past.arrived)) >= 5  # what was there is in the first file that is left
    assert check(past, world.engine.options).differences == []


def test_the_whole_is_one_history_where_files_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RecordedWorld(tmp_path / "history", monkeypatch, file_hours=1.0)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.observer.observe(NODES, node("b", cards("b", 4)))
    world.recorder.begin()
    for number in range(3):
        world.come(f"a{number}", f"b{number}")
        wait_for(lambda: not world.recorder._queue)
        before = world.recorder._files._file
        world.clock.pass_(3700)
        wait_for(lambda before=before: world.recorder._files._file is not before)
    world.end()

    past, problems, segments = world.written()

    assert len(segments) == 4
    assert problems == []
    assert len(list(past.arrived)) == 6
    found = check(past, world.engine.options)
    assert (found.decisions, found.same) == (6, 6)


def test_a_full_disk_is_no_concern_of_the_leader(world: RecordedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: not world.recorder._queue and not world.recorder._files._rows)
    real = LogFile.write

    def full(self: LogFile, rows: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogFile, "write", full)
    world.come("two")
    wait_for(lambda: world.recorder.stats.failed)
    monkeypatch.setattr(LogFile, "write", real)
    world.come("three")
    world.clock.pass_(120)
    world.come("four")
    world.end()

    past, problems, _ = world.written()

    assert world.recorder.stats.failed == 1
    assert any("nothing was written for" in text for text in problems)
    assert met(past) >= {"uid-two", "uid-three"}


def test_after_a_full_disk_no_file_is_left_that_holds_nothing(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LogFile, rows: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogFile, "write", full)
    world.recorder.begin()
    for number in range(3):
        world.come(f"pod-{number}")
        wait_for(lambda number=number: world.recorder.stats.failed == number + 1)
        world.clock.pass_(61)
    world.end()

    assert list(world.folder.iterdir()) == []


def test_short_terms_keep_no_more_files_than_long_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for term in range(5):
        world = RecordedWorld(tmp_path / "history", monkeypatch, file_hours=1.0, keep_files=2)
        world.observer.observe(NODES, node("a", cards("a", 4)))
        world.clock.pass_(3600.0 * term)
        world.recorder.begin()
        world.end()

    assert len(list(world.folder.iterdir())) == 2 + 1  # two are kept, and one is being written


def test_a_folder_that_cannot_be_tidied_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(_: Path) -> list[str]:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr("vgpu_scheduler.runtime.recorder_files.close_left_open", stale)
    world = RecordedWorld(tmp_path / "history", monkeypatch)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.recorder.begin()
    world.come("p")
    world.end()
    assert world.recorder.stats.failed
    assert {"p"} <= {event.pod.name for event in world.written()[0].events if isinstance(event, Arrived)}


def test_a_disk_that_was_full_is_written_again_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RecordedWorld(tmp_path / "history", monkeypatch, file_hours=1.0, keep_files=2)
    world.observer.observe(NODES, node("a", cards("a", 8)))
    real, full = os.fsync, [True]

    def fsync(number: int) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr("vgpu_scheduler.history.log.os.fsync", fsync)
    world.recorder.begin()
    for number in range(5):
        world.come(f"pod-{number}")
        wait_for(lambda: not world.recorder._queue)
        before = world.recorder._files._file
        full[0] = number < 3
        world.clock.pass_(3700)
        wait_for(lambda before=before: world.recorder._files._file not in {None, before})
        files = sorted(path.suffix for path in world.folder.iterdir())
        assert files == ([".arrows"] * min(number + 2, 3) if full[0] else [".arrows", ".parquet", ".parquet"])
    world.end()

    past, _, _ = world.written()
    assert check(past, world.engine.options).differences == []


def test_a_file_that_could_not_be_written_is_converted_before_the_next_one(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: not world.recorder._queue and not world.recorder._files._rows)
    real = LogFile.write

    def full(self: LogFile, rows: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogFile, "write", full)
    world.come("two")
    wait_for(lambda: world.recorder.stats.failed)
    monkeypatch.setattr(LogFile, "write", real)
    world.clock.pass_(120)
    world.come("three")
    world.end()

    assert [path.suffix for path in sorted(world.folder.iterdir())] == [".parquet", ".arrows"]


def test_the_next_leader_leaves_alone_what_the_last_one_still_writes(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    real = LogFile.write

    def hang(self: LogFile, rows: Any) -> None:
        if threading.current_thread() is last:
            hangs.set()
            assert goes_on.wait(20)
        real(self, rows)

    world.recorder.begin()
    wait_for(lambda: world.recorder.stats.written)
    last = world.recorder._thread
    monkeypatch.setattr(LogFile, "write", hang)
    world.come("one")
    world.recorder.stop()
    assert hangs.wait(20)
    later = RecordedWorld(world.folder, monkeypatch)
    later.clock.pass_(3600)
    later.recorder.begin()
    later.end()
    goes_on.set()
    world.recorder.join()

    past, problems, segments = world.written()

    assert [segment.path.suffix for segment in segments] == [".arrows", ".arrows"]
    assert [each.pod.name for each in past.arrived] == ["one"]
    assert not [text for text in problems if "truncated" in text]
    assert close_left_open(world.folder) == []
    assert {path.suffix for path in world.folder.iterdir()} == {".parquet"}


def test_a_folder_that_cannot_be_written_is_no_concern_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    world = RecordedWorld(tmp_path / "file", monkeypatch)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: world.recorder.stats.failed)
    world.end()
    held = world.engine.state.reservation("uid-one")
    assert held is not None
    assert held.node == "a"


def test_a_run_that_was_killed_is_closed_by_the_next_one(world: RecordedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: world.recorder.stats.written > 3)  # what was there, and a batch that is truncated
    open_files = list(world.folder.iterdir())
    whole = open_files[0].read_bytes()
    world.end()
    for path in world.folder.iterdir():
        path.unlink()
    open_files[0].write_bytes(whole[:-7])

    later = RecordedWorld(world.folder, monkeypatch)
    later.clock.pass_(3600)
    later.recorder.begin()
    later.end()

    assert [path.suffix for path in sorted(world.folder.iterdir())] == [".parquet", ".arrows"]


def test_nobody_waits_for_a_disk_when_a_leader_ends(world: RecordedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    real = LogFile.finish

    def hang(self: LogFile) -> None:
        hangs.set()
        assert goes_on.wait(20)
        real(self)

    monkeypatch.setattr(LogFile, "finish", hang)
    world.recorder.begin()
    world.come("one")
    world.recorder.stop()
    assert hangs.wait(20)  # it came back, and the thread is not done
    goes_on.set()
    world.recorder.join()
    past, _, _ = world.written()
    assert [each.pod.name for each in past.arrived] == ["one"]
