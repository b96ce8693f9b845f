"""Policies and the choice of nodes and cards: scorers, orders, links, whole cards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, pod
from tests.engine.policy_worlds import SPREAD, decide, placed_on, tenant, uneven, with_policies
from tests.policy.resources import policy

from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.kube import Node
from vgpu_scheduler.scorers import BinpackScorer, FragmentationScorer, HamiScorer, WeightedScorer


def test_exclusive_gives_a_card_to_one_pod_alone() -> None:
    engine = with_policies(
        engine_with([node("a", cards("a", 2))], [pod("t", annotations=allocation("a", ("a-gpu-1", 100, 0)),
                                                     started=True, nodeName="a")]),
        {"selector": {"matchLabels": {"team": "red"}}, "devices": {"exclusive": True}},
    )  # fmt: skip
    engine.observe_pod(pod("mine", asks(1, 1000), labels={"team": "red"}), 0.0)
    placed = decide(engine).placement
    assert placed is not None
    assert [(a.uuid, a.amounts) for a in placed.containers[0]] == [("a-gpu-0", (1, 1000, 100))]
    engine.observe_pod(pod("other", asks(1, 1000)), 1.0)
    other = decide(engine).placement
    assert other is not None
    assert other.containers[0][0].uuid == "a-gpu-1"


def linked_node() -> Node:
    """Four cards: 1 and 2 are linked closest, 0 and 3 closer than all others."""
    uuids = [f"a-gpu-{number}" for number in range(4)]
    scores = {frozenset(("a-gpu-0", "a-gpu-3")): 200, frozenset(("a-gpu-1", "a-gpu-2")): 300}
    listed = [
        {"uuid": one, "score": {other: scores.get(frozenset((one, other)), 20) for other in uuids if other != one}}
        for one in uuids
    ]
    return node("a", cards("a", 4), annotations={"hami.io/node-nvidia-score": json.dumps(listed)})


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({}, {"hami.io/gpu-scheduler-policy": "topology-aware"}),
        ({"policy": "topology-aware"}, {}),
        ({"policy": "binpack", "topology": "Preferred"}, {}),
        ({"policy": "LeastAllocated", "topology": "Preferred"}, {}),
    ],
)
@pytest.mark.parametrize(("number", "expected"), [(1, ({0}, {3})), (2, ({1, 2},)), (3, ({0, 1, 2}, {1, 2, 3}))])
def test_cards_are_chosen_by_their_links(
    spec: dict[str, Any], annotations: dict[str, str], number: int, expected: tuple[set[int], ...]
) -> None:
    engine = with_policies(engine_with([linked_node()]), *([{"devices": spec}] if spec else []))
    engine.observe_pod(pod("x", asks(number, 100), annotations=annotations), 0.0)
    decision = decide(engine)
    assert decision.placement is not None
    assert decision.warnings == ()
    found = {int(assignment.uuid[-1]) for assignment in decision.placement.containers[0]}
    assert found in expected


def test_linked_cards_are_chosen_anew_once_they_are_used_otherwise() -> None:
    engine = engine_with([linked_node()])
    topology = {"hami.io/gpu-scheduler-policy": "topology-aware"}
    pairs = []
    for name in ("x", "y"):
        engine.observe_pod(pod(name, asks(2, 100, 100), annotations=topology), 0.0)
        placement = decide(engine).placement
        assert placement is not None
        pairs.append({int(assignment.uuid[-1]) for assignment in placement.containers[0]})
    assert pairs == [{1, 2}, {0, 3}]
    engine.unreserve("uid-y", 2.0, Requeue.NOW)
    engine.observe_node(node("a", cards("a", 4, healthy=False), version=2), 2.0)
    decision = engine.attempt(200.0)
    assert decision is not None
    assert decision.placement is None


def test_scores_are_told_in_numbers() -> None:
    engine = with_policies(
        engine_with(uneven(), [tenant()]),
        {"nodes": {"scorers": [{"name": "hami", "policy": "spread", "weight": 2}, {"name": "binpack", "weight": 3}]}},
    )
    engine.observe_pod(pod("x", asks(cpu="4")), 0.0)
    decision = engine.attempt(1.0, explain=True)
    assert decision is not None
    assert decision.placement is not None
    assert set(decision.scores) == {"a", "b"}
    parts = {part.scorer: part for part in decision.scores[decision.placement.node]}
    assert (parts["hami"].weight, parts["binpack"].weight) == (2, 3)
    assert decision.score == pytest.approx(2 * parts["hami"].normalised + 3 * parts["binpack"].normalised)
    assert parts["hami"].normalised == pytest.approx(100 - parts["hami"].raw * 10 / 3)


def test_plain_pods_follow_scorers_that_know_them_and_their_own_order_otherwise() -> None:
    engine = engine_with([node("a", cards("a", 1)), node("b"), node("c")], [pod("t", {}, nodeName="b", started=True)])
    plain = {"requests": {"cpu": "1", "memory": "1Gi"}}
    engine.observe_pod(pod("first", plain), 0.0)
    first = decide(engine).placement
    with_policies(engine, {"nodes": {"scorers": [{"name": "binpack"}]}})
    engine.observe_pod(pod("second", plain), 0.0)
    second = decide(engine).placement
    assert first is not None
    assert second is not None
    assert (first.node, second.node) == ("b", "b")
    with_policies(engine, SPREAD)
    engine.observe_pod(pod("third", plain), 0.0)
    third = decide(engine).placement
    assert third is not None
    assert third.node == "c"


def test_a_scorer_of_weight_0_does_not_change_where_plain_pods_go() -> None:
    plain = {"requests": {"cpu": "1", "memory": "1Gi"}}
    placed = []
    for scorers in ([{"name": "hami"}], [{"name": "hami"}, {"name": "binpack", "weight": 0}]):
        engine = engine_with([node("a", cards("a", 1)), node("z")])
        with_policies(engine, {"nodes": {"scorers": scorers}})
        engine.observe_pod(pod("x", plain), 0.0)
        placement = decide(engine).placement
        assert placement is not None
        placed.append(placement.node)
    assert placed == ["z", "z"]


@pytest.mark.parametrize("name", ["hami", "fragmentation"])
def test_scorers_that_do_not_know_a_dialects_devices_are_left_out(name: str) -> None:
    dialect, scorers = koordinator_dialect(), (WeightedScorer(HamiScorer()), WeightedScorer(FragmentationScorer(), 0))
    if name == "fragmentation":
        scorers = (WeightedScorer(HamiScorer(), 0), WeightedScorer(FragmentationScorer()))
    found, left_out = dialect.claims.scorers(scorers)
    assert [entry.scorer.name for entry in found] == ["deviceshare"], "its own score where no other is left"
    assert left_out == (name,)
    known = (WeightedScorer(BinpackScorer()),)
    assert dialect.claims.scorers(known) == (known, ())
    assert dialect.claims.scorers((*known, *scorers)) == (known, (name,))


def test_a_bound_pod_does_not_narrow_the_choice_of_those_that_ask_the_same() -> None:
    engine = engine_with(uneven(), [])
    engine.observe_pod(pod("first"), 1.0)
    assert decide(engine).placement is not None
    engine.policy_tracker.observe(policy("p", SPREAD))
    bound = pod("first", annotations=allocation("a", ("a-gpu-0", 4000, 10)), started=True, nodeName="a")
    engine.observe_pod(bound, 2.0)
    engine.algorithm.classes.claims(bound)  # as whoever waits for its plugin asks
    engine.observe_pod(pod("second"), 3.0)
    assert placed_on(engine, 3.0) == "b"
