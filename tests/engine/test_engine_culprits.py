"""Pods that nobody can tell the cards of: who waits because of them is told their names."""

from __future__ import annotations

from tests.engine.builders import allocation, asks, cards, engine_with, node, pod
from tests.engine.test_engine_interpod import decide

from vgpu_scheduler.model import Outcome

CLOSED = " Cards are closed because it is not known which of them these pods use:"
NAMED = f"{CLOSED} default/lost on node a."


def waits(*bound: object, **more: object) -> str:
    """Return what a pod that wants half of a card is told beside one that runs without a readable allocation."""
    lost = pod("lost", asks(1, 6000), nodeName="a", started=True)
    engine = engine_with([node("a", cards("a", 2))], [lost, *bound])  # type: ignore[list-item]
    engine.observe_pod(pod("p", asks(1, 4000), **more), 1.0)  # type: ignore[arg-type]
    decision = decide(engine, 1.0)
    assert decision.outcome is Outcome.UNSCHEDULABLE
    return decision.message


def test_who_waits_is_told_because_of_whom() -> None:
    assert waits() == f"0/1 nodes are available: 1 CardInsufficientMemory.{NAMED}"


def test_pods_of_other_namespaces_are_not_named() -> None:
    told = waits(namespace="team")
    assert told == f"0/1 nodes are available: 1 CardInsufficientMemory.{CLOSED} uid-lost on node a."


def test_nobody_is_blamed_without_whom_there_would_be_no_room_either() -> None:
    full = [
        pod(f"full-{n}", asks(1, 7000), nodeName="a", annotations=allocation("a", (f"a-gpu-{n}", 7000, 0)))
        for n in range(2)
    ]
    assert waits(*full) == "0/1 nodes are available: 1 CardInsufficientMemory."


def test_nobody_is_blamed_for_what_is_no_matter_of_cards() -> None:
    assert "it is not known" not in waits(nodeSelector={"kubernetes.io/hostname": "elsewhere"})


def test_the_question_leaves_everything_as_it_was() -> None:
    lost = pod("lost", asks(1, 6000), nodeName="a", started=True)
    engine = engine_with([node("a", cards("a", 2))], [lost])
    before = engine.state.ledger()
    engine.observe_pod(pod("p", asks(1, 4000)), 1.0)
    assert NAMED in decide(engine, 1.0).message
    assert engine.state.ledger() == before
    assert not engine.state.drift()
    engine.observe_pod(pod("lost", asks(1, 6000), version=2, nodeName="a", phase="Succeeded"), 2.0)
    assert not engine.state.closing_cards()
    assert decide(engine, 20.0).outcome is Outcome.PLACED
