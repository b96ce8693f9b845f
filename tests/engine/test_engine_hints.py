"""Which change of a node wakes whom: only pods that a filter rejected which looks at what changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, engine_with, node, pod

from vgpu_scheduler.engine import QueueName

NODE: dict[str, Any] = {
    "labels": {"zone": "a"},
    "taints": [{"key": "team", "effect": "NoSchedule"}],
    "allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"},
}
REJECTED: dict[str, dict[str, Any]] = {
    "taint": {},
    "selector": {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"zone": "b"}},
    "spread": {
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [
            {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
    },
    "cpu": {"tolerations": [{"operator": "Exists"}], "resources": asks(0, cpu="8")},
    "features": {"tolerations": [{"operator": "Exists"}], "hostNetwork": True, "hostUsers": False},
}
"""What a pod asks for that the node rejects it for."""


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        ({"labels": {"zone": "c"}}, {"selector", "spread"}),
        ({"taints": []}, {"taint"}),
        ({"unschedulable": True}, {"taint"}),
        ({"allocatable": {**NODE["allocatable"], "cpu": "5"}}, {"cpu"}),
        ({"annotations": {"heartbeat": "1"}}, set()),
        ({"uid": "made-anew"}, set(REJECTED)),
    ],
)
def test_a_change_wakes_those_whom_it_could_help(change: dict[str, Any], woken: set[str]) -> None:
    engine = engine_with([node("n", **NODE)])
    for name, spec in REJECTED.items():
        asked = {"resources": asks(0, cpu="1"), **spec}
        engine.observe_pod(pod(name, **asked), 0.0)
        decision = engine.attempt(0.0)
        assert decision is not None
        assert decision.placement is None, name
    engine.observe_node(node("n", **{**NODE, **change, "version": 2}), 20.0)
    assert {name for name in REJECTED if engine.queue.place(f"uid-{name}") is QueueName.ACTIVE} == woken


def test_a_node_that_goes_wakes_those_who_are_to_be_spread() -> None:
    """It was a domain without pods, so that nobody could join those of the other."""
    rule = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    full = {"cpu": "0", "memory": "0", "pods": "110"}
    engine = engine_with([
        node("a", labels={"zone": "a"}, allocatable=NODE["allocatable"]),
        node("b", labels={"zone": "b"}, allocatable=full),
    ])  # fmt: skip
    spec = {"resources": asks(0, cpu="1"), "labels": {"app": "x"}, "topologySpreadConstraints": [rule]}
    for name in ("first", "second"):
        engine.observe_pod(pod(name, **spec), 0.0)
        engine.attempt(0.0)
    assert engine.queue.place("uid-second") is QueueName.UNSCHEDULABLE
    engine.remove_node("b")
    decision = engine.attempt(20.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"
