"""Whose requests count on a node: what every pod that is not terminal has there, whoever made or ends it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import engine_with, node, pod_object

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_pod

MIRROR = {
    "kubernetes.io/config.mirror": "0a1b",
    "kubernetes.io/config.source": "file",
    "kubernetes.io/config.hash": "0a1b",
}
DAEMON_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        }
    }
}


def cpu(amount: str) -> dict[str, Any]:
    return {"requests": {"cpu": amount}, "limits": {}}


def used(engine: Engine) -> tuple[int, int]:
    """Return the CPU in milli and the number of pods that count on node ``a``."""
    nodes = engine.state.nodes
    row = nodes.row("a")
    assert row is not None
    assert not engine.state.drift()
    found = nodes.used[row]
    return int(found[nodes.resources.column("cpu")]), int(found[nodes.resources.column("pods")])


def observe(engine: Engine, body: dict[str, Any], **status: Any) -> None:
    """Show a pod with another status and the next version."""
    body["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 1)
    body["status"] |= status
    engine.observe_pod(decode_pod(body), 0.0)


def on_a(name: str, amount: str = "2", **more: Any) -> dict[str, Any]:
    return pod_object(name, cpu(amount), **{"scheduler": "default-scheduler", "nodeName": "a", **more})


@pytest.fixture
def engine() -> Engine:
    return engine_with([node("a")])


def fits(engine: Engine, amount: str) -> bool:
    """Tell whether a pod with so much CPU would get node ``a``."""
    body = pod_object("asking", cpu(amount), uid=f"asking-{amount}")
    engine.observe_pod(decode_pod(body), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    return decision.placement is not None


def test_pods_of_daemon_sets_count_whoever_bound_them(engine: Engine) -> None:
    waiting = pod_object("daemon", cpu("3"), scheduler="default-scheduler", affinity=DAEMON_AFFINITY)
    waiting["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "uid": "set", "controller": True}]
    observe(engine, waiting)
    assert used(engine) == (0, 0)
    waiting["spec"]["nodeName"] = "a"
    observe(engine, waiting)
    assert used(engine) == (3000, 1)
    assert not fits(engine, "14")
    assert fits(engine, "13")


def test_a_daemon_set_of_ours_goes_to_the_node_that_it_names(engine: Engine) -> None:
    engine.observe_node(node("b"), 0.0)
    body = pod_object("daemon", cpu("3"), affinity=DAEMON_AFFINITY)
    engine.observe_pod(decode_pod(body), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"


def test_static_pods_count_by_their_mirrors(engine: Engine) -> None:
    mirror = on_a("static-a", "1500m", annotations=MIRROR, uid="0a1b")
    observe(engine, mirror, phase="Pending")
    assert used(engine) == (1500, 1)  # it runs before the API server hears of it
    observe(engine, mirror, phase="Running", containerStatuses=[{"name": "main", "state": {"running": {}}}])
    assert used(engine) == (1500, 1)
    engine.remove_pod("0a1b", 0.0)  # the kubelet deletes and creates mirrors when the file changes
    assert used(engine) == (0, 0)
    observe(engine, on_a("static-a", "1", annotations=MIRROR, uid="2c3d"), phase="Running")
    assert used(engine) == (1000, 1)


def test_a_mirror_that_names_our_scheduler_is_not_ours_to_place(engine: Engine) -> None:
    observe(engine, on_a("static-a", annotations=MIRROR, scheduler="vgpu-scheduler"), phase="Running")
    assert used(engine) == (2000, 1)
    assert engine.attempt(0.0) is None


def resized(asked: str, allocated: str, actual: str) -> dict[str, Any]:
    status = {"name": "main", "state": {"running": {}}, "resources": {"requests": {"cpu": actual}}}
    return {"phase": "Running", "containerStatuses": [status | {"allocatedResources": {"cpu": allocated}}]}


@pytest.mark.parametrize(
    ("asked", "allocated", "actual", "counts"),
    [
        ("2", "2", "2", 2000),
        ("4", "2", "2", 4000),  # asked for, not allocated yet
        ("1", "2", "2", 2000),  # given back only when the kubelet has done so
        ("1", "1", "2", 2000),
        ("1", "1", "1", 1000),
    ],
)
def test_a_resize_in_place_counts_by_the_largest(
    engine: Engine, asked: str, allocated: str, actual: str, counts: int
) -> None:
    body = on_a("p", "2")
    observe(engine, body, **resized("2", "2", "2"))
    assert used(engine) == (2000, 1)
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = asked
    observe(engine, body, **resized(asked, allocated, actual))
    assert used(engine) == (counts, 1)


def test_a_resize_that_the_node_has_no_room_for_counts_by_what_is_allocated(engine: Engine) -> None:
    body = on_a("p", "40")
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    observe(engine, body, **resized("40", "2", "2"), conditions=conditions)
    assert used(engine) == (2000, 1)
    conditions[0]["reason"] = "Deferred"
    observe(engine, body, **resized("40", "2", "2"), conditions=conditions)
    assert used(engine) == (40_000, 1)


def test_a_resize_that_gives_something_back_wakes_who_waits_for_it(engine: Engine) -> None:
    body = on_a("p", "10")
    observe(engine, body, **resized("10", "10", "10"))
    assert not fits(engine, "12")
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    observe(engine, body, **resized("2", "10", "10"))
    assert engine.attempt(20.0) is None
    observe(engine, body, **resized("2", "2", "2"))
    decision = engine.attempt(20.0)
    assert decision is not None
    assert decision.placement is not None


def test_what_a_drain_evicts_counts_until_it_is_gone(engine: Engine) -> None:
    body = on_a("p", "10")
    observe(engine, body, phase="Running")
    engine.observe_node(node("a", version=2, unschedulable=True), 0.0)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    observe(engine, body)
    assert used(engine) == (10_000, 1)
    engine.observe_node(node("a", version=3), 0.0)
    assert not fits(engine, "12")
    engine.remove_pod("uid-p", 5.0)
    assert used(engine) == (0, 0)
    assert engine.attempt(20.0) is not None


@pytest.mark.parametrize(
    ("phase", "reason"),
    [("Failed", "Evicted"), ("Failed", "Preempting"), ("Failed", "OutOfcpu"), ("Failed", ""), ("Succeeded", "")],
)
@pytest.mark.parametrize("deleting", [False, True])
def test_what_has_ended_counts_no_more_whether_it_is_deleted_or_not(
    engine: Engine, phase: str, reason: str, *, deleting: bool
) -> None:
    body = on_a("p", "10")
    observe(engine, body, phase="Running")
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    observe(engine, body, phase=phase, reason=reason)
    assert used(engine) == (0, 0)
    observe(engine, body, phase=phase, reason=reason, message="seen again")
    assert used(engine) == (0, 0)
    engine.remove_pod("uid-p", 1.0)
    assert used(engine) == (0, 0)
