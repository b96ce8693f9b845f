"""Decisions: which node, which message, and that the order in which things became known does not matter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.builders import asks, cards, engine_with, make_engine, node, node_part, pod
from tests.state.copies import algorithm_on, copied

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.node_fit import ANNOTATIONS_LIMIT, DECISION_ROOM
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import CardReason, Decision, Outcome
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.predicates import reasons as filters

NODE_POLICY = "hami.io/node-scheduler-policy"


def attempt(engine: Engine, now: float = 0.0) -> Decision:
    decision = engine.attempt(now)
    assert decision is not None
    return decision


def decide(engine: Engine, asking: Pod) -> Decision:
    engine.observe_pod(asking, 0.0)
    return attempt(engine)


def placed_on(decision: Decision) -> str:
    assert decision.placement is not None, decision.message
    return decision.placement.node


def equal_nodes(*names: str) -> list[Node]:
    return [node(name, cards(name, 2)) for name in names]


def test_equal_nodes_go_by_name() -> None:
    assert placed_on(decide(engine_with(equal_nodes("b", "c", "a")), pod("p"))) == "a"


@pytest.mark.parametrize(("policy", "second"), [("binpack", "b"), ("spread", "a")])
def test_binpack_takes_the_fuller_node_and_spread_the_emptier(policy: str, second: str) -> None:
    engine = engine_with(equal_nodes("a", "b"))
    engine.observe_pod(pod("first", nodeName="b", annotations={
        "hami.io/vgpu-node": "b", "hami.io/vgpu-devices-allocated": "b-gpu-0,NVIDIA,1000,0:;"
    }), 0.0)  # fmt: skip
    assert placed_on(decide(engine, pod("second", annotations={NODE_POLICY: policy}))) == second


def test_the_settings_choose_where_the_pod_does_not() -> None:
    for policy, expected in (("binpack", ["a", "a"]), ("spread", ["a", "b"])):
        engine = engine_with(equal_nodes("a", "b"), defaults=PolicyDefaults(node_policy=policy))
        assert [placed_on(decide(engine, pod(name))) for name in "pq"] == expected


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["binpack", "spread"]))
def test_the_order_in_which_nodes_came_does_not_matter(rng: random.Random, policy: str) -> None:
    nodes = [node(f"n{number:02}", cards(f"n{number:02}", number % 3 + 1)) for number in range(9)]
    waiting = [
        pod(f"p{n:02}", asks(1 + n % 2, 500 * (1 + n % 5)), annotations={NODE_POLICY: policy}) for n in range(12)
    ]
    shuffled = list(nodes)
    rng.shuffle(shuffled)
    # Rows are given out anew after removals, so numbers and order of rows differ for good.
    other = engine_with(shuffled)
    other.remove_node("n04")
    anew = node("n04", cards("n04", 2), uid="anew", version=2)
    other.observe_node(anew, 0.0)
    engine = engine_with([*nodes[:4], anew, *nodes[5:]])
    for asking in waiting:
        assert decide(engine, asking).placement == decide(other, asking).placement


def test_without_any_node() -> None:
    decision = decide(make_engine(), pod("p"))
    assert (decision.outcome, decision.message, decision.nodes) == (
        Outcome.UNSCHEDULABLE,
        "no nodes available to schedule pods",
        0,
    )


def test_the_documented_message() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    nodes = [node("a", cards("a", 1, memory=500)), node("b", cards("b", 3, memory=999)),
             node("c", cards("c", 1), taints=taints)]  # fmt: skip
    decision = decide(engine_with(nodes), pod("p"))
    assert decision.message == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 CardInsufficientMemory."
    )
    assert decision.reasons == {filters.TAINT: 1, CardReason.CardInsufficientMemory: 2}


def test_a_node_counts_once_under_each_reason() -> None:
    listed = [*cards("a", 2, memory=10), *cards("a2", 1, healthy=False)]
    engine = engine_with([node("a", listed), node("b"), node("c", cards("c", 1))])
    engine.observe_pod(pod("p", asks(2, 9000)), 0.0)
    known = engine.state.pod("uid-p")
    assert known is not None
    decision = engine.algorithm.decide(known, explain=True)
    assert decision.verdicts["a"].reasons[0] is CardReason.CardNotHealth
    assert "2/3 CardInsufficientMemory" in decision.verdicts["a"].detail
    assert decision.verdicts["b"].reasons == (CardReason.NodeUnregistered,)
    assert decision.message == (
        "0/3 nodes are available: 1 CardInsufficientMemory, 1 CardNotHealth, 1 NodeInsufficientDevice, "
        "1 node unregistered."
    )


def test_the_nearest_miss_is_the_card_in_service_that_lacks_least() -> None:
    engine = engine_with(
        [
            node("a", cards("a", 2, memory=500)),
            node("b", cards("b", 2, memory=900)),
            node("c", cards("c", 2, memory=900)),
            node("d", [*cards("d", 1, memory=990, healthy=False), *cards("e", 1, memory=100)]),
            node(
                "f",
                [*cards("f", 1, memory=995), *cards("g", 1, memory=100)],
                annotations={"hami.io/device-cordon": "f-gpu-0"},
            ),
        ]
    )
    decision = decide(engine, pod("p"))
    assert decision.placement is None
    known = engine.state.pod("uid-p")
    assert known is not None
    assert str(engine.algorithm.nearest(known)) == "nearest: 900 of 1000 MiB memory free on b/b-gpu-0"
    assert engine.algorithm.nearest(pod("q", asks(0))) is None


def test_refusals_do_not_depend_on_the_nodes() -> None:
    malformed = {"limits": {"nvidia.com/gpumem": "100"}, "requests": {}}
    for nodes in ([], equal_nodes("a")):
        decision = decide(engine_with(nodes), pod("p", malformed))
        assert decision.outcome is Outcome.REFUSED
        assert "add nvidia.com/gpu: 1" in decision.message
        assert decision.message.startswith(f"0/{len(nodes)} nodes are available: ")


def test_annotations_that_would_poison_the_pod_are_refused() -> None:
    engine = engine_with(equal_nodes("a"))
    fits = decide(engine, pod("fits", annotations={"note": "x" * (ANNOTATIONS_LIMIT - DECISION_ROOM - 1000)}))
    assert fits.outcome is Outcome.PLACED
    refused = decide(engine, pod("large", annotations={"note": "x" * (ANNOTATIONS_LIMIT - DECISION_ROOM)}))
    assert refused.outcome is Outcome.REFUSED
    assert "more than the 262144 that the API server accepts" in refused.message
    assert engine.state.reservation("uid-large") is None
    plain = decide(engine, pod("plain", asks(0), annotations={"note": "ü" * (ANNOTATIONS_LIMIT // 2)}))
    assert plain.outcome is Outcome.REFUSED  # bytes count, not characters


def test_unknown_policy_words_fall_back_with_a_warning() -> None:
    decision = decide(engine_with(equal_nodes("a", "b")), pod("p", annotations={NODE_POLICY: "middle"}))
    assert placed_on(decision) == "a"
    assert "'middle' is unknown, binpack is used" in decision.warnings[0]
    strict = engine_with(equal_nodes("a"), defaults=PolicyDefaults(strict_annotations=True))
    assert decide(strict, pod("p", annotations={NODE_POLICY: "middle"})).outcome is Outcome.REFUSED


def test_pods_without_claims_stay_off_the_nodes_with_cards() -> None:
    engine = engine_with([node("a", cards("a", 1)), node("plain")])
    assert placed_on(decide(engine, pod("p", asks(0)))) == "plain"


def test_the_same_state_and_pod_give_the_same_decision() -> None:
    engine = engine_with(equal_nodes("a", "b", "c"), [pod("first")])
    attempt(engine)
    asking = pod("p", asks(2, 3000, 40))
    engine.observe_pod(asking, 0.0)
    decisions = [engine.algorithm.decide(asking) for _ in range(3)]
    decisions.append(algorithm_on(engine, copied(engine.state)).decide(asking))
    assert all(decision == decisions[0] for decision in decisions)


SHAPES = [asks(1, 1000), asks(1, 3000, 30), asks(2, 2000, 50), asks(1, 0, 100), asks(0), asks(1, 1000, cpu="2")]
EXTRAS: list[dict[str, str]] = [{}, {"nvidia.com/nouse-gpuuuid": "n1-gpu-0"}, {NODE_POLICY: "spread"}]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["node", "cards", "cordon", "gone", "place", "free", "taint", "label", "others"]),
        st.integers(0, 24),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(CHANGES)
def test_cached_shapes_say_what_a_fresh_evaluation_says(changes: list[tuple[str, int, int]]) -> None:
    engine = engine_with([node(f"n{number}", cards(f"n{number}", 2)) for number in range(3)])
    placed: list[str] = []
    for version, (change, which, number) in enumerate(changes, start=2):
        name = f"n{which}"  # beyond 16 the node table grows
        if change == "gone":
            engine.remove_node(name)
        elif change == "place":
            uid = f"uid-p{version}"
            engine.observe_pod(pod(f"p{version}", SHAPES[number], annotations=EXTRAS[which % 3]), 0.0)
            if (decision := engine.attempt(0.0)) and decision.placement:
                placed.append(uid)
        elif change == "free":
            for uid in placed[which % 3 : which % 3 + 1]:
                placed.remove(uid)
                engine.remove_pod(uid, 0.0)
        elif change == "others":
            engine.observe_pod(pod(f"o{version}", asks(1, 0), nodeName=name, started=True, scheduler="other"), 0.0)
        else:
            more: dict[str, object] = {"unschedulable": change == "cordon"}
            if change == "taint":
                more["taints"] = [{"key": "k", "effect": "NoSchedule"}]
            more["labels"] = {"pool": str(number)} if change == "label" else {}
            listed = cards(name, number, healthy=which % 4 != 0) if change == "cards" else cards(name, 2)
            engine.observe_node(node(name, listed, version=version, uid=f"uid-{name}-{version}", **more), 0.0)
        agree(engine)


def agree(engine: Engine) -> None:
    """Compare the cached columns of every class with those of a new engine on the same state."""
    fresh = algorithm_on(engine, engine.state)
    rows = engine.state.nodes.rows()
    for number, resources in enumerate(SHAPES):
        for extra in EXTRAS:
            asking = pod(f"shape{number}", resources, annotations=extra)
            cached, anew = node_part(engine.algorithm, asking), node_part(fresh, asking)
            assert cached.refresh(engine.state, rows) <= anew.refresh(engine.state, rows)
            assert (cached.rejected[rows] == anew.rejected[rows]).all()
            assert (cached.feasible[rows] == anew.feasible[rows]).all()
            feasible = rows[cached.feasible[rows]]
            np.testing.assert_array_equal(cached.fit.score[feasible], anew.fit.score[feasible])
            np.testing.assert_array_equal(cached.fit.counts[rows], anew.fit.counts[rows])
            assert engine.algorithm.decide(asking) == fresh.decide(asking)
