"""Host ports: which are taken on each node, as pods and nodes come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.engine.builders import asks, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.state import State


def on_ports(*ports: int, **more: Any) -> dict[str, Any]:
    """Return the spec of a pod with these host ports."""
    container = {"name": "main", "resources": asks(0), "ports": [{"hostPort": port, **more} for port in ports]}
    return {"containers": [container]}


def taken(state: State, name: str) -> set[tuple[str, str, int, int]]:
    row = state.nodes.row(name)
    assert row is not None
    return set(state.nodes.ports.on(row))


def test_ports_follow_the_pods() -> None:
    engine = engine_with([node("a")], [pod("p", nodeName="a", **on_ports(80, 81))])
    assert taken(engine.state, "a") == {("TCP", "0.0.0.0", 80, 1), ("TCP", "0.0.0.0", 81, 1)}
    engine.observe_pod(pod("q", nodeName="a", **on_ports(80, hostIP="10.0.0.1", protocol="UDP")), 0.0)
    assert ("UDP", "10.0.0.1", 80, 1) in taken(engine.state, "a")
    engine.observe_pod(pod("p", version=2, nodeName="a", phase="Failed", **on_ports(80, 81)), 0.0)
    engine.remove_pod("uid-q", 0.0)
    assert not taken(engine.state, "a")


def test_ports_are_there_again_with_their_node() -> None:
    engine = engine_with([node("a")], [pod("p", nodeName="a", **on_ports(80))])
    engine.remove_node("a")
    engine.observe_node(node("b"), 0.0)  # takes the row
    assert not taken(engine.state, "b")
    engine.observe_node(node("a", uid="anew", version=3), 0.0)
    assert taken(engine.state, "a") == {("TCP", "0.0.0.0", 80, 1)}


def decided(engine: Engine, name: str, **spec: Any) -> str:
    """Decide a pod; return its node, or the message."""
    engine.observe_pod(pod(name, **spec), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    return decision.placement.node if decision.placement else decision.message


def test_assumed_ports_are_taken_and_given_back() -> None:
    engine = engine_with([node("a")])
    assert decided(engine, "p", **on_ports(80)) == "a"
    refused = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert decided(engine, "q", **on_ports(80, hostIP="10.0.0.1")) == refused
    assert decided(engine, "r", **on_ports(80, protocol="UDP")) == "a"
    engine.unreserve("uid-p", 1.0, at_least=5.0)
    second = engine.attempt(1.0)
    assert second is not None
    assert (second.pod, second.outcome) == ("default/q", Outcome.PLACED)


def test_a_placement_whose_port_was_taken_by_somebody_else_is_not_bound() -> None:
    engine = engine_with([node("a")])
    assert decided(engine, "p", **on_ports(80)) == "a"
    engine.observe_pod(pod("q", scheduler="another", nodeName="a", **on_ports(80)), 0.0)
    assert engine.assumed.recheck("uid-p") is None


def test_usage_equals_a_rebuild() -> None:
    rng = np.random.default_rng(20)
    engine = engine_with([node(name) for name in "abc"])
    for version in range(2, 400):
        name, number = "abcd"[rng.integers(4)], int(rng.integers(12))
        ports = on_ports(*rng.integers(80, 84, rng.integers(3)).tolist(), hostIP=["", "10.0.0.1"][rng.integers(2)])
        match rng.integers(6):
            case 0:
                engine.remove_node(name)
            case 1:
                engine.observe_node(node(name, uid=f"{name}-{version}", version=version), 0.0)
            case 2:
                engine.remove_pod(f"uid-p{number}-{version // 100}", 0.0)
            case _:
                uid = f"p{number}-{version // 100}"
                phase = "Succeeded" if rng.integers(6) == 0 else "Running"
                engine.observe_pod(pod(uid, version=version, nodeName=name, phase=phase, **ports), 0.0)
        twin = engine.state.rebuild()
        for known in engine.state.all_nodes():
            assert taken(engine.state, known.name) == taken(twin, known.name)
        for held in list(twin.reservations()):
            twin.remove_pod(held.uid)
        assert all(not taken(twin, known.name) for known in twin.all_nodes())
