"""Nodes whose device plugins serve nobody: passed over by those who would need them, for as long as that lasts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.builders import OURS, asks, cards, engine_with, node, pod

from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.engine import ClosedByLock, ClosedByPod, ClosureCause, Engine, QueueName, TakenLock

LOCK = "hami.io/mutex.lock"
TOKEN = "vgpu-scheduler.io/last-allocated"
MLU_LOCK = "cambricon.com/dsmlu.lock"
TIME = "2026-01-01T00:00:00Z"


def two_nodes(**annotations: str) -> Engine:
    """Return an engine with node ``a``, which has two cards and annotations, and ``b``, which has one card."""
    return engine_with([node("a", cards("a", 2), annotations=annotations), node("b", cards("b", 1))])


def placed(engine: Engine, name: str, now: float, gpu: int = 1) -> str:
    """Have a pod decided; return its node, or the message if there is none."""
    engine.observe_pod(pod(name, asks(gpu, 8000)), now)
    decision = engine.attempt(now)
    assert decision is not None
    return decision.placement.node if decision.placement else decision.message


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (f"{TIME},default,somebody", ClosureCause.LOCK_HELD),
        (TIME, ClosureCause.LOCK_HELD),
        ("garbage", ClosureCause.LOCK_MALFORMED),
    ],
)
def test_a_lock_closes_its_node_from_the_moment_that_it_is_seen(value: str, cause: ClosureCause) -> None:
    engine = two_nodes(**{LOCK: value})
    assert engine.closed_nodes.closures("a") == (ClosedByLock(cause, TakenLock(NodeLock(LOCK), value)),)
    assert placed(engine, "p", 1.0) == "b"
    assert placed(engine, "q", 1.0) == f"0/2 nodes are available: 1 CardInsufficientMemory, 1 {cause.text}."
    assert placed(engine, "plain", 1.0, gpu=0) == "a"
    assert engine.closed_nodes.counts()[cause] == 1


def test_an_explanation_names_a_closed_node() -> None:
    engine = two_nodes(**{LOCK: "garbage"})
    placed(engine, "p", 1.0)
    engine.observe_pod(pod("q", asks(1, 8000)), 1.0)
    decision = engine.attempt(1.0, explain=True)
    assert decision is not None
    assert decision.verdicts["a"].reasons == (ClosureCause.LOCK_MALFORMED,)


@pytest.mark.parametrize("seed", range(30))
def test_an_explanation_gives_each_node_either_a_score_or_a_reason(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = ["", "", "garbage", f"{TIME},default,somebody"]
    names = ("a", "b", "c", "d")
    engine = engine_with(
        [
            node(name, cards(name, 1), annotations={LOCK: value} if (value := str(rng.choice(values))) else {})
            for name in names
        ]
    )
    placed(engine, "p", 1.0)
    engine.observe_pod(pod("q", asks(1, int(rng.choice([4000, 12000])))), 1.0)
    decision = engine.attempt(1.0, explain=True)
    assert decision is not None
    assert sorted([*decision.scores, *decision.verdicts]) == list(names)


def test_a_lock_of_a_pod_of_ours_closes_nothing() -> None:
    for holder in ({LOCK: f"{TIME},default,first"}, {LOCK: TIME, TOKEN: "uid-first"}):
        engine = engine_with(pods=[pod("first", asks(1, 8000), nodeName="a", scheduler=OURS)])
        engine.observe_node(node("a", cards("a", 2), annotations=holder), 0.0)
        assert placed(engine, "p", 1.0) == "a"


def test_a_lock_that_names_a_pod_of_another_scheduler_closes_the_node() -> None:
    engine = engine_with(pods=[pod("first", nodeName="a", scheduler="another")])
    engine.observe_node(node("a", cards("a", 2), annotations={LOCK: f"{TIME},default,first"}), 0.0)
    assert [closure.cause for closure in engine.closed_nodes.closures("a")] == [ClosureCause.LOCK_HELD]


def test_a_namesake_that_is_gone_owns_no_lock() -> None:
    engine = engine_with(pods=[pod("first", nodeName="a")])
    engine.remove_pod("uid-first", 0.0)
    engine.observe_node(node("a", cards("a", 2), annotations={LOCK: f"{TIME},default,first"}), 0.0)
    assert engine.closed_nodes.closures("a")


def test_a_lock_that_a_pod_does_not_need_is_none_of_its_business() -> None:
    assert placed(two_nodes(**{MLU_LOCK: "garbage"}), "p", 1.0) == "a"


def test_the_node_is_open_again_when_its_lock_changes() -> None:
    held = {LOCK: f"{TIME},default,somebody"}
    engine = two_nodes(**held)
    placed(engine, "p", 1.0)
    placed(engine, "q", 1.0)
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={**held, "heartbeat": "1"}), 5.0)
    assert engine.queue.place("uid-q") is QueueName.UNSCHEDULABLE
    engine.observe_node(node("a", cards("a", 2), version=3, annotations={LOCK: "garbage"}), 5.0)
    assert [closure.cause for closure in engine.closed_nodes.closures("a")] == [ClosureCause.LOCK_MALFORMED]
    engine.observe_node(node("a", cards("a", 2), version=4), 6.0)
    assert engine.queue.place("uid-q") is QueueName.ACTIVE
    decision = engine.attempt(6.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"


def test_a_lock_that_nobody_uses_any_more_closes_nothing_until_it_changes() -> None:
    held = {LOCK: f"{TIME},default,somebody"}
    engine = two_nodes(**held)
    placed(engine, "p", 1.0)
    placed(engine, "q", 1.0)
    [closure] = engine.closed_nodes.closures("a")
    engine.open_node("a", closure, 5.0)
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={**held, "heartbeat": "1"}), 6.0)
    assert engine.queue.place("uid-q") is QueueName.ACTIVE
    assert not engine.closed_nodes.closures("a")
    engine.observe_node(node("a", cards("a", 2), version=3, annotations={LOCK: f"{TIME},default,other"}), 7.0)
    assert engine.closed_nodes.closures("a")


def test_a_judgement_of_a_lock_that_has_changed_meanwhile_opens_nothing() -> None:
    engine = two_nodes(**{LOCK: f"{TIME},default,somebody"})
    [closure] = engine.closed_nodes.closures("a")
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={LOCK: "garbage"}), 1.0)
    engine.open_node("a", closure, 2.0)
    assert engine.closed_nodes.closures("a")


def test_a_silent_plugin_closes_its_node_until_the_lock_changes() -> None:
    engine = engine_with(pods=[pod("first", asks(1, 8000), nodeName="a")])
    value = f"{TIME},default,first"
    engine.observe_node(node("a", cards("a", 2), annotations={LOCK: value}), 0.0)
    engine.closed_nodes.close("a", ClosedByLock(ClosureCause.PLUGIN_SILENT, TakenLock(NodeLock(LOCK), value)))
    assert placed(engine, "p", 1.0) == "0/1 nodes are available: 1 node(s) had a device plugin that does not answer."
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={LOCK: value, "heartbeat": "1"}), 2.0)
    assert engine.queue.place("uid-p") is QueueName.UNSCHEDULABLE
    engine.observe_node(node("a", cards("a", 2), version=3), 3.0)
    assert engine.queue.place("uid-p") is QueueName.ACTIVE


def test_a_silent_plugin_without_a_lock_closes_its_node_to_all_that_are_served_in_turn() -> None:
    engine = two_nodes()
    closure = ClosedByPod(ClosureCause.PLUGIN_SILENT, "uid-first")
    engine.closed_nodes.close("a", closure)
    engine.observe_node(node("a", cards("a", 2), version=2), 0.5)
    assert placed(engine, "p", 1.0) == "b"
    engine.open_node("a", closure, 2.0)
    assert placed(engine, "q", 2.0) == "a"


def test_a_node_that_is_gone_is_forgotten() -> None:
    engine = two_nodes(**{LOCK: "garbage"})
    engine.remove_node("a")
    assert list(engine.closed_nodes) == []
    assert placed(engine, "p", 1.0) == "b"
