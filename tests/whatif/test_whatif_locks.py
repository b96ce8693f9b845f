"""Locks are judged as the operator judges them: what it finds out about each, whoever asks is told at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.binding.bench import LOCK, PENDING, PODS, Bench, bench
from tests.engine.builders import OURS, allocation, asks, cards, node_object, pod_object

from vgpu_scheduler.dialects.hami import format_lock
from vgpu_scheduler.dialects.hami.codec import format_time
from vgpu_scheduler.model import LAST_ALLOCATED
from vgpu_scheduler.reading import ClusterView, make_world, settings_from_file
from vgpu_scheduler.whatif import World, newest_time, simulate

HAMI, OTHERS = "hami-scheduler", ("default-scheduler", "hami-scheduler")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVED = {"hami.io/bind-phase": "success", "hami.io/vgpu-devices-to-allocate": ";"}
NODES = 80


def of_kind(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, **obj}


async def random_lock(b: Bench, rng: np.random.Generator, number: int, nodes: list[str]) -> str:
    """Have a node be locked by somebody, or by nobody any more; return what was chosen, for a message."""
    node, name = nodes[number], f"owner-{number}"
    age = timedelta(seconds=float(rng.choice([0.0, 2.0, 120.0, 700.0])))
    taken = datetime.now(UTC) - age
    who = str(rng.choice(["nobody", "gone", "malformed", "unnamed", "waits", "here", "elsewhere", "ended"]))
    scheduler = OURS if rng.random() < 0.6 else str(rng.choice(OTHERS))
    answered, started = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    if who in {"waits", "here", "elsewhere", "ended"}:
        await b.create(name, scheduler=scheduler)
    if who in {"here", "elsewhere", "ended"}:
        where = nodes[number - 1] if who == "elsewhere" else node
        said = {**allocation(where, (b.nodes.cards(where)[0].uuid, 1000, 0)), **(SERVED if answered else PENDING)}
        await b.bind_elsewhere(name, where, said)
    if who == "ended" or (who == "here" and started):
        status: dict[str, Any] = {"phase": "Failed" if who == "ended" else "Running"}
        if who == "here":
            status["containerStatuses"] = [
                {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            ]
        patch = {"status": status}
        done = await b.call("PATCH", f"{PODS}/{name}/status", patch, content_type="application/merge-patch+json")
        assert done.ok, done.message
    value = {"malformed": "nonsense", "unnamed": format_time(taken)}.get(who) or format_lock(taken, "default", name)
    if who != "nobody":
        await b.annotate_node(node, {LOCK: value})
    return f"{who} {scheduler} {age} {answered=} {started=}"


@pytest.mark.parametrize("seed", range(4))
async def test_the_nodes_that_locks_close_are_the_operators(tmp_path: Path, seed: int) -> None:
    rng, nodes = np.random.default_rng(seed), [f"n{number:02}" for number in range(NODES)]
    async with bench(tmp_path, timeout=5.0, node_side_timeout=3600.0) as b:
        await b.nodes.register(nodes, ("T4",))
        chosen = {node: await random_lock(b, rng, number, nodes) for number, node in enumerate(nodes)}
        await b.learn()
        await b.binder.look_at_closed_nodes()
        closed = b.engine.closed_nodes
        operators = {(name, each) for name in closed for each in closed.closures(name)}
        objects = [
            of_kind(kind, obj)
            for kind, path in (("Node", "/api/v1/nodes"), ("Pod", "/api/v1/pods"))
            for obj in (await b.call("GET", path)).json()["items"]
        ]
    settings = settings_from_file(None, {"bind": {"node_side_timeout": 3600}})
    world = make_world(ClusterView(objects, {}, settings, live=True, read_at=datetime.now(UTC)))
    asked = world.engine.closed_nodes
    told = {(name, each) for name in asked for each in asked.closures(name)}
    assert told == operators, [chosen[name] for name, *_ in told ^ operators]
    assert min(Counter(name in {node for node, *_ in told} for name in nodes).values()) > 20


# By themselves --------------------------------------------------------------------------------------------------------


def world_of(*objects: Mapping[str, Any], read_at: datetime | None = NOW, live: bool = True, **bind: float) -> World:
    settings = settings_from_file(None, {"bind": bind})
    return make_world(ClusterView(objects, {}, settings, live=live, read_at=read_at))


def locked(name: str, owner: str, age: float = 0.0) -> dict[str, Any]:
    value = format_lock(NOW - timedelta(seconds=age), "default", owner)
    return of_kind("Node", node_object(name, cards(name, 1), annotations={LOCK: value}))


def holder(node: str, **more: Any) -> dict[str, Any]:
    said = {**allocation(node, (f"{node}-gpu-0", 1000, 0)), **PENDING}
    return of_kind("Pod", pod_object("holder", annotations=said, nodeName=node, **more))


def asked_for(world: World) -> tuple[str, str]:
    """Return the node that a pod would get, and what is said of when."""
    (answer,) = simulate(world, [world.pod(of_kind("Pod", pod_object("p", asks(gpumem=100))))], explained=False)
    return answer.node, answer.after


def test_an_orphaned_lock_keeps_nobody_away() -> None:
    assert asked_for(world_of(locked("n", "gone"))) == ("n", "")


@pytest.mark.parametrize("started", [True, False])
def test_a_lock_that_names_nobody_may_be_of_a_pod_that_waits_for_its_plugin(*, started: bool) -> None:
    """The token is that of the last pod of ours, and another scheduler that writes none may have bound one since."""
    node = locked("n", "")
    taken = format_time(NOW - timedelta(seconds=100))
    node["metadata"]["annotations"] |= {LOCK: taken, LAST_ALLOCATED: "uid-waits"}
    waits = of_kind("Pod", pod_object("waits", asks(gpumem=100)))
    world = world_of(node, waits, holder("n", scheduler=HAMI, started=started))
    after = "it is bound when its turn comes: node n is locked for another pod"
    assert asked_for(world) == ("n", "" if started else after)


def test_a_lock_of_a_pod_that_is_served_makes_others_wait_for_their_turn() -> None:
    after = "it is bound when its turn comes: node n is locked for pod default/holder"
    assert asked_for(world_of(locked("n", "holder", 5.0), holder("n"))) == ("n", after)
    assert asked_for(world_of(locked("n", "holder", 61.0), holder("n"))) == ("", "")
    assert asked_for(world_of(locked("n", "holder", 61.0), holder("n"), node_side_timeout=90.0)) == ("n", after)
    world = world_of(locked("n", "holder", 5.0), holder("n"))
    world.remove_pod(next(iter(world.bound)))
    assert asked_for(world) == ("n", "")


def test_a_lock_of_another_scheduler_keeps_others_away() -> None:
    assert asked_for(world_of(locked("n", "holder", 5.0), holder("n", scheduler=HAMI))) == ("", "")


def test_where_pods_were_not_read_a_lock_is_held() -> None:
    node = locked("n", "gone")
    assert asked_for(world_of(node, live=False)) == ("", "")
    other = of_kind("Pod", pod_object("another"))
    assert asked_for(world_of(node, other, live=False)) == ("n", "")


def test_ages_count_at_the_time_of_the_snapshot() -> None:
    waits = of_kind("Pod", pod_object("holder", scheduler=HAMI))
    for age, node in ((200.0, ""), (301.0, "n")):
        assert asked_for(world_of(locked("n", "holder", age), waits))[0] == node
        assert asked_for(world_of(locked("n", "holder", age), waits, read_at=None))[0] == "", "nobody knows the time"


def test_without_a_time_of_its_own_a_cluster_was_read_when_it_last_changed() -> None:
    heard = {"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T10:00:00Z"}, "x", {"lastProbeTime": 5}]}
    objects = [
        {"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "status": heard},
        {"metadata": {"creationTimestamp": "2025-13-01T00:00:00Z"}, "status": {"startTime": "2025-06-01T00:00:00"}},
        {"metadata": None, "status": 5},
        {},
    ]
    assert newest_time(objects) == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert newest_time(objects[1:]) is None
