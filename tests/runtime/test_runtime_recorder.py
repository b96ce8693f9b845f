"""What a leader observes and decides is written down, and nothing that goes wrong with that is its concern."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.builders import OURS, allocation, asks, cards, make_engine, node, pod
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import (
    Arrived,
    Changed,
    Departed,
    History,
    LogFile,
    LogSegment,
    Withdrawn,
    joined,
    read_part,
    replay,
)
from vgpu_scheduler.history.checking import check
from vgpu_scheduler.intake import CLUSTER_POLICIES, NODES, PODS, Observer
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime import recorder as module
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.runtime.recorder import Recorder, make_recorder
from vgpu_scheduler.settings import HistorySettings, Settings, SettingsError, read

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.time = BEGAN

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - BEGAN).total_seconds()

    def pass_(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class World:
    """An engine that is observed and asked as a leader's is."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        monkeypatch.setattr(module, "_PACE", 0.001)
        self.clock, self.engine = Clock(), make_engine()
        chosen = HistorySettings(directory=folder, **settings)
        self.recorder = Recorder(chosen, self.engine, {"node_policy": "binpack"}, self.clock, "run")
        port: Any = type("Port", (), {"__getattr__": lambda *_: lambda *_: None})()
        self.observer = Observer(self.engine, self.seconds, port, lambda _: None, listener=self.recorder)
        self.folder = folder
        self.version = 100

    def seconds(self) -> float:
        return self.clock.now().timestamp()

    def see(self, found: Pod) -> None:
        self.version += 1
        self.observer.observe(PODS, msgspec.structs.replace(found, resource_version=self.version))

    def decide(self) -> None:
        while decisions := self.engine.attempt_group(self.seconds()):
            self.recorder.decided(decisions)
            for each in decisions:
                if each.placement is not None:
                    known = self.engine.state.pod(each.uid)
                    assert known is not None
                    notes = self.engine.dialects.annotations(each.placement, self.seconds(), known)
                    self.engine.binding_succeeded(each.uid)
                    self.clock.pass_(0.1)
                    self.see(
                        msgspec.structs.replace(known, node_name=each.placement.node, annotations=notes, started=True)
                    )

    def come(self, *names: str) -> None:
        for name in names:
            self.clock.pass_(1)
            self.see(pod(name, asks(1, 3000)))
            self.decide()

    def go(self, name: str) -> None:
        self.clock.pass_(1)
        known = self.engine.state.pod(f"uid-{name}")
        assert known is not None
        self.observer.deleted_by_watch(PODS, known)
        self.decide()

    def end(self) -> None:
        self.recorder.stop()
        self.recorder.join()

    def written(self) -> tuple[History, list[str], list[LogSegment]]:
        parts = [read_part(path) for path in sorted(self.folder.iterdir())]
        return *joined(parts), parts


def wait_for(condition: Any) -> None:
    """Wait until the thread of the recorder has done something."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def met(past: History) -> set[str]:
    """Return who was met where it was placed, after a gap."""
    return {each.value.uid for each in past.events if isinstance(each, Changed) and isinstance(each.value, Pod)}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(tmp_path / "history", monkeypatch)
    for name in ("a", "b"):
        found.observer.observe(NODES, node(name, cards(name, 2)))
    found.see(pod("old", annotations=allocation("a", ("a-gpu-0", 1000, 0)), nodeName="a", started=True))
    return found


def test_what_happens_is_written_and_replays_to_the_same_decisions(world: World) -> None:
    world.recorder.begin()
    world.come("one", "two", "three", "four", "five")
    world.go("two")
    world.go("old")
    world.come("six")
    world.end()

    past, problems, parts = world.written()

    assert problems == []
    assert [part.path.suffix for part in parts] == [".arrows"]  # the next leader closes it
    assert parts[0].header.settings == {"node_policy": "binpack"}
    assert [each.pod.name for each in past.arrived] == ["one", "two", "three", "four", "five", "six"]
    assert [each.uid for each in past.events if isinstance(each, Departed)] == ["uid-two", "uid-old"]
    assert all(each.by == OURS for each in past.decided)
    found = check(past, world.engine.options)
    assert (found.decisions, found.same, found.differences, found.lacked) == (6, 6, [], {})
    course = replay(past, world.engine.options)
    assert {each.uid: each.node for each in course.pods} == {each.uid: each.node for each in past.decided}
    assert world.recorder.stats.dropped == world.recorder.stats.failed == 0


def test_a_pod_that_is_gone_unbound_departs(world: World) -> None:
    world.recorder.begin()
    world.see(pod("large", asks(1, 9000)))
    world.decide()
    found = world.engine.state.pod("uid-large")
    assert found is not None
    world.observer.left_selection(msgspec.structs.replace(found, resource_version=900))
    world.observer.bound_shown_up_to(901)
    world.end()

    past, _, _ = world.written()

    assert [type(each) for each in past.events] == [Arrived, Departed]


def test_a_decision_that_was_not_carried_out_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "history", monkeypatch)
    for name in ("a", "b"):
        world.observer.observe(NODES, node(name, cards(name, 1)))
    whole = asks(1, 8000, 100)
    world.recorder.begin()
    world.clock.pass_(1)
    world.see(pod("x", whole))
    world.recorder.decided(world.engine.attempt_group(world.seconds()))
    world.engine.unreserve("uid-x", world.seconds())  # its Binding failed
    world.recorder.withdrawn("uid-x")
    world.clock.pass_(0.2)  # it backs off
    world.see(pod("y", whole))
    world.decide()
    world.clock.pass_(5)
    world.engine.queue.tick(world.seconds())
    world.decide()
    world.end()

    past, problems, _ = world.written()

    assert problems == []
    assert [each.uid for each in past.events if isinstance(each, Withdrawn)] == ["uid-x"]
    assert [(each.uid, each.node) for each in past.decided] == [("uid-x", "a"), ("uid-y", "a"), ("uid-x", "b")]
    found = check(past, world.engine.options)
    assert (found.decisions, found.same, found.differences, found.lacked) == (3, 3, [], {})
    assert past.stays()["uid-x"].placed == [each.at for each in past.decided][-1]


def test_nothing_is_written_by_who_does_not_lead(world: World) -> None:
    world.come("one")
    assert not world.folder.exists()
    world.recorder.begin()
    world.end()
    world.come("two")
    past, _, _ = world.written()
    assert not list(past.events)
    assert len(past.first) == 4  # two nodes and two pods


def test_files_are_closed_by_age_and_the_oldest_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "history", monkeypatch, file_hours=1.0, keep_files=2)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.recorder.begin()
    for number in range(4):
        world.come(f"pod-{number}")
        wait_for(lambda: not world.recorder._queue)
        before = world.recorder._files._file
        world.clock.pass_(3700)
        wait_for(lambda before=before: world.recorder._files._file is not before)
    world.end()

    past, problems, parts = world.written()

    assert problems == []
    assert [part.path.suffix for part in parts] == [".parquet", ".parquet", ".arrows"]
    assert len(past.first) + len(list(past.arrived)) >= 5  # what was there is in the first file that is left
    assert check(past, world.engine.options).differences == []


def test_the_whole_is_one_history_where_files_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "history", monkeypatch, file_hours=1.0)
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

    past, problems, parts = world.written()

    assert len(parts) == 4
    assert problems == []
    assert len(list(past.arrived)) == 6
    found = check(past, world.engine.options)
    assert (found.decisions, found.same) == (6, 6)


def test_what_the_queue_has_no_room_for_is_counted_and_made_up_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: not world.recorder._queue)
    monkeypatch.setattr(module, "_MOST_QUEUED", 0)
    world.come("two", "three")
    world.go("one")
    monkeypatch.setattr(module, "_MOST_QUEUED", 1000)
    world.come("four")
    world.end()

    past, problems, _ = world.written()

    assert world.recorder.stats.dropped > 0
    assert any("events are missing: they came faster than they could be written" in text for text in problems)
    stays = past.stays()
    assert {uid for uid, stay in stays.items() if stay.placed} == {"uid-one", "uid-four"}
    assert met(past) == {"uid-two", "uid-three"}
    assert stays["uid-one"].departed is not None


def test_a_full_disk_is_no_concern_of_the_leader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_after_a_full_disk_no_file_is_left_that_holds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_folder_that_cannot_be_written_is_no_concern_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    world = World(tmp_path / "file", monkeypatch)
    world.observer.observe(NODES, node("a", cards("a", 4)))
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: world.recorder.stats.failed)
    world.end()
    held = world.engine.state.reservation("uid-one")
    assert held is not None
    assert held.node == "a"


def test_a_run_that_was_killed_is_closed_by_the_next_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.recorder.begin()
    world.come("one")
    wait_for(lambda: world.recorder.stats.written > 3)  # what was there, and a batch that is torn
    open_files = list(world.folder.iterdir())
    whole = open_files[0].read_bytes()
    world.end()
    for path in world.folder.iterdir():
        path.unlink()
    open_files[0].write_bytes(whole[:-7])

    later = World(world.folder, monkeypatch)
    later.clock.pass_(3600)
    later.recorder.begin()
    later.end()

    assert [path.suffix for path in sorted(world.folder.iterdir())] == [".parquet", ".arrows"]


def test_nobody_waits_for_a_disk_when_a_leader_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_settings_that_decide_are_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"node_policy": "spread", "history": {"directory": str(tmp_path)}, "log_level": "DEBUG"}
    settings = read(given, {})
    engine = Engine(engine_options(settings))
    found = make_recorder(settings, engine, Clock(), "run")
    assert found is not None
    assert found._files._decisive == {"node_policy": "spread"}
    assert make_recorder(Settings(), engine, Clock(), "run") is None

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("vgpu_scheduler.history.log.import_module", missing)
    with pytest.raises(SettingsError, match=r"history.directory: logs need the package pyarrow: pip install"):
        make_recorder(settings, engine, Clock(), "run")


def test_policies_are_written_as_they_are_written(world: World) -> None:
    world.recorder.begin()
    world.observer.observe(CLUSTER_POLICIES, policy("pack", {"nodes": {"policy": "spread"}}))
    world.come("one")
    world.end()
    past, _, _ = world.written()
    assert check(past, world.engine.options).same == 1
