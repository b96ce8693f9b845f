"""An engine whose observations and decisions a recorder writes down, as it does for a leader."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.builders import allocation, asks, cards, make_engine, node, pod

from vgpu_scheduler.history import Changed, History, LogSegment, joined, read_segment
from vgpu_scheduler.intake import NODES, PODS, Observer
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime import recorder as module
from vgpu_scheduler.runtime.recorder import HistoryRecorder
from vgpu_scheduler.settings import HistorySettings

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.time, self.step = BEGAN, timedelta(0)

    def now(self) -> datetime:
        return self.time + self.step

    def monotonic(self) -> float:
        return (self.time - BEGAN).total_seconds()

    def pass_(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class RecordedWorld:
    """An engine that is observed and asked as a leader's is."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        monkeypatch.setattr(module, "PACE", 0.001)
        self.clock, self.engine = Clock(), make_engine()
        chosen = HistorySettings(directory=folder, **settings)
        self.recorder = HistoryRecorder(chosen, self.engine, {"node_policy": "binpack"}, self.clock, "run")
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
        while decisions := self.engine.schedule_next(self.seconds()):
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
        segments = [read_segment(path) for path in sorted(self.folder.iterdir())]
        return *joined(segments), segments


def world_with_a_pod(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedWorld:
    """Return a world of two nodes, on one of which a pod runs."""
    found = RecordedWorld(folder, monkeypatch)
    for name in ("a", "b"):
        found.observer.observe(NODES, node(name, cards(name, 2)))
    found.see(pod("old", annotations=allocation("a", ("a-gpu-0", 1000, 0)), nodeName="a", started=True))
    return found


def wait_for(condition: Any) -> None:
    """Wait until the thread of the recorder has done something."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def met(past: History) -> set[str]:
    """Return who was met where it was placed, after a gap."""
    return {each.value.uid for each in past.events if isinstance(each, Changed) and isinstance(each.value, Pod)}
