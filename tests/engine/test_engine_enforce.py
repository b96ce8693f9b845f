"""A pod goes where enforced sections send it, to the cards that they choose, whatever it or its namespace writes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.engine.builders import OURS, allocation, card, engine_with, node, pod
from tests.engine.dialect_worlds import NUMBER, VOLCANO, asking, engine_of, volcano_node
from tests.engine.odd_values import other_engine
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, decode_node
from vgpu_scheduler.model import Decision, Outcome

SEEDS = range(60)
HOUSE = {
    "enforce": ["nodes", "devices"],
    "nodes": {"policy": "binpack"},
    "devices": {"policy": "binpack", "order": "ScoreFirst"},
}


def hami(dice: Random) -> Engine:
    """Two nodes of four cards on two NUMA nodes, some of which are in use."""
    engine = engine_with(
        node(name, [card(f"{name}-{index}", index=index, numa=index // 2) for index in range(4)]) for name in "ab"
    )
    for number in range(dice.randint(0, 5)):
        name, index = dice.choice("ab"), dice.randrange(4)
        notes = allocation(name, (f"{name}-{index}", dice.choice([500, 1000, 2000]), 10))
        engine.observe_pod(pod(f"r{number}", annotations=notes, nodeName=name, started=True), 0.0)
    return engine


def volcano(dice: Random) -> Engine:
    engine = engine_of(VOLCANO)
    for name in "ab":
        engine.observe_node(decode_node(volcano_node(name, *(f"{name}-{index}" for index in range(4)))), 0.0)
    assert dice
    return engine


def koordinator(dice: Random) -> Engine:
    assert dice
    return other_engine("koordinator")


def of_hami(notes: dict[str, str], labels: dict[str, str]) -> Pod:
    return pod("p", annotations=notes, labels=labels)


def of_volcano(notes: dict[str, str], labels: dict[str, str]) -> Pod:
    return asking("p", {NUMBER: 1, "volcano.sh/vgpu-memory": 1000}, annotations=notes, labels=labels, scheduler=OURS)


def of_koordinator(notes: dict[str, str], labels: dict[str, str]) -> Pod:
    amounts: dict[str, object] = {"koordinator.sh/gpu-core": 30, "koordinator.sh/gpu-memory-ratio": 30}
    return asking("p", amounts, annotations=notes, labels=labels, scheduler=OURS)


ANNOTATIONS = {
    "hami.io/node-scheduler-policy": ("spread", "binpack"),
    "hami.io/gpu-scheduler-policy": ("spread", "mutex", "numa,spread", "topology-aware"),
    "hami.io/device-scoring-weights": ("slot=9,core=0,memory=0", "slot=0,core=0,memory=1"),
    "nvidia.com/numa-bind": ("true",),
    "nvidia.com/use-gpuuuid": ("a-0", "b-3", "a-1,b-2"),
    "nvidia.com/nouse-gpuuuid": ("a-0", "a-0,a-1,b-0"),
    "volcano.sh/vgpu-use-gpuuuid": ("a-0", "b-3"),
    "volcano.sh/vgpu-nouse-gpuuuid": ("a-0,a-1",),
}
OWN: list[dict[str, Any]] = [
    {"nodes": {"policy": "spread"}, "devices": {"policy": "spread"}},
    {"nodes": {"scorers": [{"name": "fragmentation"}]}},
    {"devices": {"policy": "mutex", "numa": "Required"}},
    {"podOverrides": {"allow": ["nodePolicy", "devicePolicy", "deviceWeights", "deviceUUIDs", "numa"]}},
]


def decide(make: Callable[[Random], Engine], seed: int, asked: Pod, *own: dict[str, Any]) -> Decision:
    engine = make(Random(seed))
    engine.policy_tracker.observe(policy("house", HOUSE))
    for number, spec in enumerate(own):
        engine.policy_tracker.observe(policy(f"own{number}", {"priority": 1000 + number, **spec}, "default"))
    return engine.algorithm.decide(asked)


@pytest.mark.parametrize(
    ("make", "asked"),
    [(hami, of_hami), (volcano, of_volcano), (koordinator, of_koordinator)],
    ids=["hami", "volcano", "koordinator"],
)
def test_annotations_labels_and_policies_of_a_namespace_move_no_pod(
    make: Callable[[Random], Engine], asked: Callable[[dict[str, str], dict[str, str]], Pod]
) -> None:
    for seed in SEEDS:
        dice = Random(f"pod {seed}")
        notes = {name: dice.choice(values) for name, values in ANNOTATIONS.items() if dice.random() < 0.5}
        plain = decide(make, seed, asked({}, {}))
        free = decide(make, seed, asked(notes, {"gpu-size": "large"}), *dice.sample(OWN, dice.randint(0, 3)))
        assert plain.outcome is Outcome.PLACED
        assert free.placement == plain.placement, (seed, notes)
        assert free.sources["nodes"] == plain.sources["nodes"] == ("ClusterVGPUPolicy house",)
        assert free.sources["devices"] == plain.sources["devices"] == ("ClusterVGPUPolicy house",)


def test_types_and_modes_of_a_pod_still_tighten() -> None:
    asked = of_hami({"nvidia.com/use-gputype": "H100"}, {})
    assert decide(hami, 0, asked).message.startswith("0/2 nodes are available: 2 CardTypeMismatch")


def test_amounts_that_a_pod_names_stay_where_defaults_are_enforced() -> None:
    engine = hami(Random(0))
    spec = {"enforce": ["defaults"], "defaults": {"memory": "2Gi", "cores": 20}}
    engine.policy_tracker.observe(policy("house", spec))
    engine.policy_tracker.observe(policy("own", {"defaults": {"memory": "1Gi", "cores": 5}}, "default"))
    silent = engine.algorithm.decide(pod("p", {"limits": {"nvidia.com/gpu": "1"}}))
    named = engine.algorithm.decide(pod("q", {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "300"}}))
    assert [decision.placement.containers[0][0].amounts[1:3] for decision in (silent, named) if decision.placement] == [
        (2048, 20),
        (300, 20),
    ]


def test_the_status_says_where_pods_leave_what_is_enforced_by_their_labels() -> None:
    engine = hami(Random(0))
    for name, selector in (("left", {"matchLabels": {"app": "x"}}), ("kept", {})):
        engine.policy_tracker.observe(policy(name, {**HOUSE, "selector": selector}))
    warned = {
        report.policy.name: condition.reason
        for report in engine.policy_tracker.report(frozenset({OURS}))
        for condition in report.conditions
        if condition.type == "Warnings"
    }
    assert warned == {"left": "LeftByLabels", "kept": "NoWarnings"}
