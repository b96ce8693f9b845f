"""A node that changes while victims leave it for a pod: if it does not take the pod any more, all is decided anew."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, card, cards, node, node_object
from tests.engine.preemption_fleet import Fleet
from tests.policy.resources import policy

from vgpu_scheduler.kube import decode_node

CHANGES: dict[str, dict[str, Any]] = {
    "cordon": {"spec": {"unschedulable": True}},
    "taint": {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}},
    "cards that fail": {},
}


def ending_on_a() -> Fleet:
    """Have a pod wait for one that leaves node a; on node b there is one that costs more."""
    fleet = Fleet([node("a", cards("a", 1)), node("b", cards("b", 1))])
    for name, priority in (("low", 0), ("lower", 1)):
        fleet.come(name, priority, asks(gpumem=8000))
        fleet.decide()
    fleet.come("high", 5, asks(gpumem=8000))
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert found.node == "a"
    return fleet


def change(fleet: Fleet, version: int = 900, **more: Any) -> None:
    """Have node a change."""
    made = {**node_object("a", more.pop("devices", cards("a", 1))), **more}
    made["metadata"]["resourceVersion"] = str(version)
    fleet.engine.observe_node(decode_node(made), fleet.now)


@pytest.mark.parametrize("what", CHANGES)
def test_who_waits_for_a_node_that_does_not_take_it_any_more_is_decided_anew(what: str) -> None:
    fleet = ending_on_a()
    more = {"devices": [card("a-gpu-0", healthy=False)]} if what == "cards that fail" else {}
    change(fleet, **CHANGES[what], **more)
    assert not fleet.engine.state.holds
    fleet.now = 20.0  # once its back-off is over
    fleet.engine.queue.flush_due(fleet.now)
    fleet.decide()
    found = fleet.last["high"].preemption
    assert found is not None
    assert found.node == "b"


def test_a_node_that_changes_otherwise_goes_on_keeping_the_room() -> None:
    fleet = ending_on_a()
    before = fleet.engine.preemptions.of("uid-high")
    change(fleet, status={**node_object("a", cards("a", 1))["status"], "conditions": []})
    assert fleet.engine.preemptions.of("uid-high") is before is not None


def test_nobody_may_end_for_a_pod_that_its_node_does_not_take_any_more() -> None:
    fleet = ending_on_a()
    engine = fleet.engine
    low = engine.state.pod("uid-low")
    assert low is not None
    assert engine.preemptions.forbids("uid-high", low, fleet.now) == ""
    elsewhere = {"priority": 9, "nodeSelector": {"matchLabels": {"pool": "other"}}}
    engine.policy_tracker.observe(policy("elsewhere", elsewhere))
    assert engine.preemptions.forbids("uid-high", low, fleet.now) == "node a does not take the pod any more"
