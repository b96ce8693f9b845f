"""What a leader observes and decides is written down, and replays to the same decisions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.engine.builders import OURS, asks, cards, node, pod
from tests.policy.resources import policy
from tests.runtime.recorded_world import Clock, RecordedWorld, met, wait_for, world_with_a_pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.history import Arrived, Departed, Withdrawn, replay
from vgpu_scheduler.history.checking import check
from vgpu_scheduler.intake import CLUSTER_POLICIES, NODES
from vgpu_scheduler.runtime import recorder as module
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.runtime.recorder import make_recorder
from vgpu_scheduler.runtime.replica import Replica
from vgpu_scheduler.settings import Settings, SettingsError, read


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedWorld:
    return world_with_a_pod(tmp_path / "history", monkeypatch)


def test_what_happens_is_written_and_replays_to_the_same_decisions(world: RecordedWorld) -> None:
    world.recorder.begin()
    world.come("one", "two", "three", "four", "five")
    world.go("two")
    world.go("old")
    world.come("six")
    world.end()

    past, problems, segments = world.written()

    assert problems == []
    assert [segment.path.suffix for segment in segments] == [".arrows"]  # the next leader closes it
    assert segments[0].header.settings == {"node_policy": "binpack"}
    assert [each.pod.name for each in past.arrived] == ["one", "two", "three", "four", "five", "six"]
    assert [each.uid for each in past.events if isinstance(each, Departed)] == ["uid-two", "uid-old"]
    assert all(each.by == OURS for each in past.decided)
    found = check(past, world.engine.options)
    assert (found.decisions, found.same, found.differences, found.lacked) == (6, 6, [], {})
    result = replay(past, world.engine.options)
    assert {each.uid: each.node for each in result.pods} == {each.uid: each.node for each in past.decided}
    assert world.recorder.stats.dropped == world.recorder.stats.failed == 0


@pytest.mark.parametrize("hours", [1, -1])
def test_rows_follow_a_clock_that_is_set_and_never_go_back(world: RecordedWorld, hours: int) -> None:
    world.recorder.begin()
    world.come("before")
    world.clock.step = timedelta(hours=hours)
    world.come("after")
    world.end()

    past, problems, _ = world.written()

    assert problems == []
    before, after = (each.at for each in past.arrived)
    assert after - before == pytest.approx(3601.1 if hours > 0 else 0.1, abs=0.01)
    times = [each.at for each in past.events]
    assert times == sorted(times)


def test_a_pod_that_is_gone_unbound_departs(world: RecordedWorld) -> None:
    world.recorder.begin()
    world.see(pod("large", asks(1, 9000)))
    world.decide()
    found = world.engine.state.pod("uid-large")
    assert found is not None
    world.observer.left_selection(msgspec.structs.replace(found, resource_version=900))
    world.observer.bound_pods_synced_to(901)
    world.end()

    past, _, _ = world.written()

    assert [type(each) for each in past.events] == [Arrived, Departed]


def test_a_decision_that_was_not_carried_out_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = RecordedWorld(tmp_path / "history", monkeypatch)
    for name in ("a", "b"):
        world.observer.observe(NODES, node(name, cards(name, 1)))
    whole = asks(1, 8000, 100)
    world.recorder.begin()
    world.clock.pass_(1)
    world.see(pod("x", whole))
    world.recorder.decided(world.engine.schedule_next(world.seconds()))
    world.engine.unreserve("uid-x", world.seconds())  # its Binding failed
    world.recorder.withdrawn("uid-x")
    world.clock.pass_(0.2)  # it backs off
    world.see(pod("y", whole))
    world.decide()
    world.clock.pass_(5)
    world.engine.queue.flush_due(world.seconds())
    world.decide()
    world.end()

    past, problems, _ = world.written()

    assert problems == []
    assert [each.uid for each in past.events if isinstance(each, Withdrawn)] == ["uid-x"]
    assert [(each.uid, each.node) for each in past.decided] == [("uid-x", "a"), ("uid-y", "a"), ("uid-x", "b")]
    found = check(past, world.engine.options)
    assert (found.decisions, found.same, found.differences, found.lacked) == (3, 3, [], {})
    assert past.pod_lifetimes()["uid-x"].placed == [each.at for each in past.decided][-1]


def test_nothing_is_written_by_who_does_not_lead(world: RecordedWorld) -> None:
    world.come("one")
    assert not world.folder.exists()
    world.recorder.begin()
    world.end()
    world.come("two")
    past, _, _ = world.written()
    assert not list(past.events)
    assert len(past.first) == 4  # two nodes and two pods


def test_what_the_queue_has_no_room_for_is_counted_and_made_up_for(
    world: RecordedWorld, monkeypatch: pytest.MonkeyPatch
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
    assert any("events are missing: they arrived faster than they could be written" in text for text in problems)
    lifetimes = past.pod_lifetimes()
    assert {uid for uid, lifetime in lifetimes.items() if lifetime.placed} == {"uid-one", "uid-four"}
    assert met(past) == {"uid-two", "uid-three"}
    assert lifetimes["uid-one"].departed is not None


async def test_the_last_rows_are_written_before_the_lease_is_given_up() -> None:
    done: list[str] = []

    def step(name: str) -> Any:
        async def note(*_: Any) -> None:
            done.append(name)

        return note

    async def wait_until_written(seconds: float = 10.0) -> None:
        done.append(f"written within {seconds:.0f} s")

    replica: Any = SimpleNamespace(
        _reporter=SimpleNamespace(start=list, stop=step("told")),
        _relister=SimpleNamespace(relist=step("relisted")),
        _watchers=list,
        _lead=step("led"),
        _evictor=SimpleNamespace(stop=step("evicted")),
        _binder=SimpleNamespace(stop=step("bound")),
        _elector=SimpleNamespace(leading=True, release=step("released")),
        _recorder=SimpleNamespace(wait_until_written=wait_until_written),
    )

    await Replica.run(replica)

    ends = ["evicted", "bound", "written within 1 s", "released", "told", "written within 10 s"]
    assert done == ["relisted", "led", *ends]


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
    with pytest.raises(SettingsError, match=r"history.directory: history logs need the package pyarrow: pip install"):
        make_recorder(settings, engine, Clock(), "run")


def test_policies_are_written_as_they_are_written(world: RecordedWorld) -> None:
    world.recorder.begin()
    world.observer.observe(CLUSTER_POLICIES, policy("pack", {"nodes": {"policy": "spread"}}))
    world.come("one")
    world.end()
    past, _, _ = world.written()
    assert check(past, world.engine.options).same == 1
