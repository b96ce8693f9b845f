"""Groups whose pods are placed near each other: on nodes that have the same value of a label."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.engine.builders import asks, cards, engine_with, in_group, node, pod
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.pod_capacity import capacity_for
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import Outcome

REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
INDEX = "batch.kubernetes.io/job-completion-index"


def rack(name: str, number: int, racks: str, **more: Any) -> Node:
    """Return a node with some cards; ``racks`` is the value of its label, ``rack`` or ``zone/rack``."""
    zone, _, own = racks.rpartition("/")
    labels = {key: value for key, value in (("rack", own), ("zone", zone)) if value}
    return node(name, cards(name, number), labels=labels, **more)


def member(name: str, size: int, memory: int = 8000, **wants: str) -> Pod:
    """Return a pod of a group that says how near to the others it is placed: ``required``, ``preferred``."""
    notes = {
        **in_group("team", size),
        **{{"required": REQUIRED, "preferred": PREFERRED}[k]: v for k, v in wants.items()},
    }
    return pod(name, asks(1, memory), annotations=notes)


def come(engine: Engine, number: int, size: int, memory: int = 8000, **wants: str) -> None:
    """Have pods of a group come."""
    for each in range(number):
        engine.observe_pod(member(f"p{each}", size, memory, **wants), 0.0)


def attempt(engine: Engine, now: float = 0.0) -> dict[str, str]:
    """Decide the next group; return the nodes of those that were placed, else what the first says, as ``""``."""
    decisions = engine.schedule_next(now)
    placed = {each.pod.partition("/")[2]: each.placement.node for each in decisions if each.placement is not None}
    return placed or {"": decisions[0].message if decisions else ""}


def test_the_smallest_domain_that_has_room_is_taken() -> None:
    racks = [rack("a", 8, "large"), rack("b", 2, "small"), rack("c", 1, "small"), rack("d", 2, "tiny")]
    engine = engine_with(racks)
    come(engine, 3, 3, required="rack")
    assert set(attempt(engine).values()) == {"b", "c"}


def test_a_domain_that_only_looks_as_if_it_had_room_is_passed_over() -> None:
    """Two cards of its two nodes are free, and the one node has no CPU for a second pod: a card alone does not do."""
    taken = {"allocatable": {"cpu": "1", "memory": "64Gi", "pods": "110"}}
    racks = [rack("a", 3, "good"), rack("b", 1, "bad", **taken), rack("c", 1, "bad")]
    engine = engine_with(racks)
    wants = {**in_group("team", 2), REQUIRED: "rack"}
    for name in ("p0", "p1"):
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "rack"}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        engine.observe_pod(pod(name, asks(1, 8000), annotations=wants, labels={"app": "y"}, affinity=apart), 0.0)
    engine.observe_pod(pod("there", asks(0), labels={"app": "x"}, nodeName="c"), 0.0)
    assert set(attempt(engine).values()) == {"a"}


def test_no_domain_has_room_though_all_together_have() -> None:
    engine = engine_with([rack("a", 2, "r1"), rack("b", 1, "r2"), node("c", cards("c", 4))])
    versions = engine.state.nodes.version.copy()
    come(engine, 3, 3, required="rack")
    said = attempt(engine)[""]
    assert said == (
        "0/3 nodes are available: group default/team needs 3 pods to be placed at once, and rack r1 has room for at"
        f" most 2 of them, and others have no more (annotation {REQUIRED})."
    )
    assert (engine.state.nodes.version == versions).all()
    engine.observe_node(rack("b", 3, "r2", version=2), 20.0)
    assert set(attempt(engine, 20.0).values()) == {"b"}


def test_a_label_that_no_node_has_is_named() -> None:
    engine = engine_with([rack("a", 2, "r1")])
    come(engine, 2, 2, required="block")
    assert "and no node has label block, of which they must share one value" in attempt(engine)[""]


def test_pods_that_run_already_fix_the_domain() -> None:
    engine = engine_with([rack("a", 1, "r1"), rack("b", 4, "r2"), rack("c", 2, "r1")])
    come(engine, 2, 2, required="rack")
    assert set(attempt(engine).values()) == {"a", "c"}
    for name in ("p0", "p1"):
        engine.unreserve(f"uid-{name}", 1.0) if name == "p1" else engine.groups.bound(f"uid-{name}")
    assert list(attempt(engine, 20.0).values()) in (["a"], ["c"])


@pytest.mark.parametrize("size", [1, 2])
def test_pods_beyond_those_that_are_needed_are_placed_near_the_others(size: int) -> None:
    engine = engine_with([rack("a", 8, "large"), rack("b", 1, "mid"), rack("c", 1, "mid"), rack("d", 1, "mid")])
    engine.groups.trusts_assumed = True
    come(engine, 4, size, required="rack")
    placed: dict[str, str] = {}
    for _ in range(4):
        placed.update({name: on for name, on in attempt(engine).items() if name})
    assert set(placed.values()) == {"a"}, "only there is room for all four"
    assert len(placed) == 4


def test_a_pod_beyond_those_that_are_needed_waits_where_there_is_no_room_near_the_others() -> None:
    engine = engine_with([rack("a", 2, "r1"), rack("b", 1, "r2")])
    engine.groups.trusts_assumed = True
    come(engine, 2, 2, required="rack")
    assert set(attempt(engine).values()) == {"a"}
    engine.observe_pod(member("p2", 2, required="rack"), 1.0)
    assert "its pods that run are not on nodes with one value of rack that has room" in attempt(engine, 1.0)[""]


def test_a_preferred_label_is_given_up_where_it_cannot_be() -> None:
    engine = engine_with([rack("a", 2, "r1"), rack("b", 1, "r2"), rack("c", 2, "r3")])
    come(engine, 4, 4, preferred="rack")
    assert sorted(attempt(engine).values()) == ["a", "a", "c", "c"], "as few racks as possible"


def test_a_preferred_label_within_a_required_one() -> None:
    racks = [rack("a", 2, "z1/r1"), rack("b", 2, "z1/r2"), rack("c", 3, "z2/r3"), rack("d", 1, "z2/r4")]
    engine = engine_with(racks)
    come(engine, 3, 3, required="zone", preferred="rack")
    assert set(attempt(engine).values()) == {"c"}
    engine = engine_with([rack("a", 2, "z1/r1"), rack("b", 2, "z1/r2"), rack("c", 2, "z2/r3")])
    come(engine, 3, 3, required="zone", preferred="rack")
    assert set(attempt(engine).values()) == {"a", "b"}


def test_numbered_pods_are_on_neighbouring_nodes() -> None:
    """Nodes are spread over, and two pods fit on each: 0 and 1 are side by side all the same."""
    engine = engine_with([rack(name, 2, "r") for name in "abc"])
    for index in (5, 0, 3, 2, 10, 1):
        notes = {**in_group("team", 6), "hami.io/node-scheduler-policy": "spread"}
        engine.observe_pod(pod(f"p{index}", asks(1, 8000), annotations=notes, labels={INDEX: str(index)}), 0.0)
    decisions = {each.pod.partition("/")[2]: each for each in engine.schedule_next(0.0)}
    placed = {name: each.placement.node for name, each in decisions.items() if each.placement is not None}
    assert [placed[f"p{index}"] for index in (0, 1, 2, 3, 5, 10)] == ["a", "a", "b", "b", "c", "c"]
    assert decisions["p0"].feasible == 3, "all nodes were asked before"
    assert not engine.state.drift()


@pytest.mark.parametrize(("mode", "expected"), [("Required", set()), ("Preferred", {"a", "b"})])
def test_a_policy_says_how_near_pods_of_groups_are_placed(mode: str, expected: set[str]) -> None:
    engine = engine_with([rack("a", 2, "r1"), rack("b", 1, "r2"), rack("c", 1, "r3")])
    near = {"policy": "binpack", "together": {"key": "rack", "mode": mode}}
    engine.policy_tracker.observe(policy("racks", {"nodes": near}))
    come(engine, 3, 3)
    found = attempt(engine)
    assert set(found.values()) == expected or "(nodes.together of ClusterVGPUPolicy racks)" in found[""]
    engine.policy_tracker.observe(policy("racks", {"nodes": {"policy": "binpack"}}))
    if not expected:
        assert set(attempt(engine, 20.0).values()) == {"a", "b"}


@pytest.mark.parametrize("wants", [{}, {"required": "rack"}, {"preferred": "rack"}])
def test_a_pod_is_not_moved_away_from_the_others_by_a_slow_node(wants: dict[str, str]) -> None:
    engine = engine_with([rack("a", 2, "r1"), rack("b", 2, "r2")])
    come(engine, 2, 2, 8000, **wants)
    assert set(attempt(engine).values()) == {"a"}
    moved = engine.decide_elsewhere("uid-p0", {"a"})
    assert (moved is None) == bool(wants)


@settings(deadline=None)
@given(st.data())
def test_there_is_never_room_for_more_pods_than_are_counted(data: st.DataObject) -> None:
    """Whoever places one pod after the other on a node finds no more room than was counted before."""
    nodes = [
        node(
            name,
            cards(name, data.draw(st.integers(0, 3)), count=data.draw(st.integers(1, 4))),
            allocatable={"cpu": str(data.draw(st.integers(1, 6))), "memory": "64Gi", "pods": "6"},
        )
        for name in "ab"
    ]
    engine = engine_with(nodes)
    for number in range(data.draw(st.integers(0, 3))):
        engine.observe_pod(pod(f"t{number}", asks(1, data.draw(st.sampled_from([1000, 5000])))), 0.0)
        engine.attempt(0.0)
    devices = data.draw(st.integers(0, 2))
    amounts = asks(devices, data.draw(st.sampled_from([1000, 3000, 8000])), data.draw(st.sampled_from([0, 30, 100])))
    amounts["requests"] = {**amounts["requests"], "cpu": data.draw(st.sampled_from(["100m", "1"]))}
    counted = capacity_for(engine.algorithm.classes, pod("asks", amounts), 50)
    for name in "ab":
        row = engine.state.nodes.row(name)
        assert row is not None
        placed = 0
        while placed <= 50:
            waits = pod(f"{name}{placed}", amounts)
            decision = engine.algorithm.decide(waits, within=np.array([row], dtype=np.int64))
            if decision.outcome is not Outcome.PLACED:
                break
            engine.observe_pod(waits, 0.0)
            engine.attempts.reserver.reserve(waits, decision)
            placed += 1
        assert placed <= counted.counts[row]


@pytest.mark.parametrize("first", ["pod", "node"])
def test_others_are_tried_elsewhere_once_the_pod_is_gone_that_kept_them_near(first: str) -> None:
    """Nobody else is woken by that: the node that it was on is gone, and with it what the pod held."""
    engine = engine_with([rack("a", 1, "r1"), rack("c", 1, "r1"), rack("b", 2, "r2")])
    engine.observe_pod(member("p0", 1, required="rack"), 0.0)
    engine.observe_pod(pod("tenant", asks(1, 8000), nodeSelector={"rack": "r1"}), 0.0)
    assert attempt(engine) == {"p0": "a"}
    engine.binding_succeeded("uid-p0")
    assert attempt(engine) == {"tenant": "c"}
    engine.observe_pod(member("p1", 1, required="rack"), 1.0)
    assert "its pods that run are not on nodes with one value" in attempt(engine, 1.0)[""]
    engine.observe_node(rack("a", 1, "r1", version=2, unschedulable=True), 20.0)
    attempt(engine, 40.0)
    if first == "node":
        engine.remove_node("a", 2)
    else:
        engine.remove_pod("uid-p0", 60.0)
    assert attempt(engine, 80.0) == {"p1": "b"}
