"""Nodes whose device lock somebody holds on to: passed over by those who would need it, for as long as that lasts."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine, Place

LOCK = "hami.io/mutex.lock"
HELD = {LOCK: "2026-01-01T00:00:00Z,default,somebody"}


@pytest.fixture
def engine() -> Engine:
    """An engine with nodes ``a``, locked by somebody, and ``b``."""
    made = engine_with([node("a", cards("a", 2), annotations=HELD), node("b", cards("b", 1))])
    made.block("a", 0.0, 30.0)
    return made


def placed(engine: Engine, name: str, now: float, gpu: int = 1) -> str:
    """Have a pod decided; return its node, or the message if there is none."""
    engine.observe_pod(pod(name, asks(gpu, 8000)), now)
    decision = engine.attempt(now)
    assert decision is not None
    return decision.placement.node if decision.placement else decision.message


def test_pods_with_claims_go_elsewhere_and_say_so_if_they_cannot(engine: Engine) -> None:
    assert placed(engine, "p", 1.0) == "b"
    assert placed(engine, "q", 1.0) == (
        "0/2 nodes are available: 1 CardInsufficientMemory, 1 node(s) had their device lock held by another pod."
    )
    assert placed(engine, "plain", 1.0, gpu=0) == "a"


def test_the_node_is_tried_again_when_its_lock_changes(engine: Engine) -> None:
    placed(engine, "p", 1.0)
    placed(engine, "q", 1.0)
    engine.observe_node(node("a", cards("a", 2), version=2, annotations={**HELD, "heartbeat": "1"}), 5.0)
    assert engine.queue.place("uid-q") is Place.UNSCHEDULABLE
    engine.observe_node(node("a", cards("a", 2), version=3), 6.0)
    assert engine.queue.place("uid-q") is Place.ACTIVE
    decision = engine.attempt(6.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"


def test_the_node_is_tried_again_after_a_while_whatever_happens(engine: Engine) -> None:
    placed(engine, "p", 1.0)
    placed(engine, "q", 1.0)
    assert engine.attempt(29.0) is None
    decision = engine.attempt(30.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"


def test_a_node_that_nobody_knows_cannot_be_blocked(engine: Engine) -> None:
    engine.block("none", 0.0, 30.0)
    engine.remove_node("a")
    assert placed(engine, "p", 1.0) == "b"
