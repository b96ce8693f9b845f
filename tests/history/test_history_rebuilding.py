"""What a world knows is what its histories and forecasts begin with, whatever objects tell it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.history.dialect_clusters import DIALECTS, READ_AT, node_of, with_arrivals, world_of
from tests.history.recorded import BEGAN, HOUR

from vgpu_scheduler.engine import SCHEDULER_NAME, Engine, EngineOptions
from vgpu_scheduler.forecast import Forecast, WorkloadHistory, forecast, present_of
from vgpu_scheduler.history import Changed, replay
from vgpu_scheduler.history.allocation_sampler import AllocationSampler
from vgpu_scheduler.history.rebuilding import rebuilt
from vgpu_scheduler.history.virtual import VirtualCluster, known_objects
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import World, make_dialect
from vgpu_scheduler.whatif.traces.of_cluster import nodes_of_cluster


def cards(engine: Engine) -> dict[str, list[Any]]:
    """Return the cards of all nodes, and what is used of them."""
    return {
        f"{name} in {dialect.name}": list(engine.state.usage_on(name, dialect.name))
        for name in DIALECTS
        for dialect in engine.dialects
    }


@pytest.mark.parametrize("first", ["Node", "Device"])
def test_objects_that_a_world_knows_make_a_cluster_of_the_same_cards(first: str) -> None:
    objects = [obj for dialect in DIALECTS for obj in node_of(dialect)]
    world = world_of(*DIALECTS, objects=sorted(objects, key=lambda obj: (obj["kind"] == "Pod", obj["kind"] != first)))

    cluster = VirtualCluster(world.engine.options)
    for kind, value in known_objects(world.engine):
        cluster.observe(kind, value, BEGAN)

    assert not cluster.lacked
    found = cards(world.engine)
    assert [name for name, listed in found.items() if any(any(used) for _, used in listed)] == [
        f"{name} in {name}" for name in DIALECTS
    ]
    assert cards(cluster.engine) == found


def test_objects_of_a_removed_node_are_not_known() -> None:
    world = world_of("koordinator", objects=node_of("koordinator"))
    world.remove_node("koordinator")
    assert list(known_objects(world.engine)) == []


def test_cards_alone_are_counted_and_no_rdma_devices() -> None:
    objects = [obj for dialect in DIALECTS for obj in node_of(dialect)]
    (beside,) = (obj for obj in objects if obj["kind"] == "Device")
    rdma = {"type": "rdma", "minor": 0, "id": "mlx5_0", "health": True, "resources": {"koordinator.sh/rdma": "100"}}
    beside["spec"]["devices"].append(rdma)
    world = world_of(*DIALECTS, objects=objects)
    assert len(world.devices("koordinator", "koordinator")) == 2

    sampler = AllocationSampler(world.engine.state, world.engine.dialects)
    sampler.read(BEGAN)
    found = sampler.series()
    assert (found.cards.tolist(), found.allocated.tolist(), found.idle.tolist()) == ([3.0], [3.0], [0.0])
    assert {node.name: node.models for node in nodes_of_cluster(world)[0]} == dict.fromkeys(DIALECTS, ("NVIDIA-A100",))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_forecast_knows_the_cards_of_every_dialect(dialect: str) -> None:
    world = world_of(dialect, objects=with_arrivals(dialect))
    past, present = WorkloadHistory(rebuilt(world, READ_AT)[0]), present_of(world.engine, READ_AT.timestamp())
    (found,) = forecast(present, past, world.engine.options, list(world.pending.values())).values()
    assert isinstance(found, Forecast), found
    assert found.least == found.most == pytest.approx(30.0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_replay_of_a_snapshot_knows_the_cards_of_every_dialect(dialect: str) -> None:
    world = world_of(dialect, objects=with_arrivals(dialect))
    result = replay(rebuilt(world, READ_AT)[0], world.engine.options)
    assert result.lacked == {}
    assert set(result.series.cards) == {1.0}
    assert {pod.pod for pod in result.pods if pod.started is None} == {"default/waits"}
    assert max(result.series.allocated) == 1.0
    assert all(pod.waited == 0.0 for pod in result.pods if pod.started is not None)


def test_a_replay_of_a_snapshot_counts_what_another_scheduler_has_announced() -> None:
    *nodes, holder = node_of("hami")
    del holder["spec"]["nodeName"]
    holder["spec"]["schedulerName"] = "hami-scheduler"
    holder["status"] = {"phase": "Pending"}
    options = EngineOptions([make_dialect("hami")], scheduler_names=[SCHEDULER_NAME], coexist_with=["hami-scheduler"])
    world = World(options)
    world.add([*nodes, holder])
    assert world.bound
    events = rebuilt(world, READ_AT)[0].events
    (pod,) = [event.value for event in events if isinstance(event, Changed)]
    assert isinstance(pod, Pod)
    assert pod.node_name == "hami"
    assert events[0].at == BEGAN + HOUR
