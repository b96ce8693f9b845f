"""Repair: whatever was booked wrongly on a node, its pods say what is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.engine.builders import allocation, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.state import State

Mistake = Callable[[State], object]


def two_pods() -> Engine:
    """Return an engine with two pods, each on a card of its own."""
    pods = [pod(f"p{n}", nodeName="a", annotations=allocation("a", (f"a-gpu-{n}", 3000, 20))) for n in range(2)]
    return engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], pods)


def forgotten(state: State) -> None:
    state._books.take_off("uid-p0")


def left_over(state: State) -> None:
    state._pods.remove("uid-p0", "uid-p0", 99)


def miscounted(state: State) -> None:
    row = state.nodes.row("a")
    assert row is not None
    device = state.devices.position(row, "a-gpu-1")
    assert device is not None
    state.devices.charge(device, (1, 500, 0), 1)


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (forgotten, "pod default/p0 was not booked"),
        (left_over, "pod default/p0 was booked, but does not hold anything there"),
        (miscounted, "the amounts of its cards were not those that its pods hold"),
    ],
)
def test_a_mistake_is_found_named_and_repaired(mistake: Mistake, says: str) -> None:
    engine = two_pods()
    mistake(engine.state)
    assert engine.state.drift().keys() == {"a"}
    assert engine.repair("a", 1.0) == [says]
    assert not engine.state.drift()
    assert not engine.repair("a", 1.0)
    assert not engine.repair("b", 1.0)


def test_what_is_right_is_left_as_it_is() -> None:
    engine = two_pods()
    engine.observe_pod(pod("waits"), 0.0)
    assert engine.attempt(0.0) is not None
    before = engine.state.ledger()
    assert not [what for name in "ab" for what in engine.repair(name, 1.0)]
    assert engine.state.ledger() == before
    assert engine.recheck("uid-waits") is not None


def test_who_waited_because_of_a_mistake_is_tried_again() -> None:
    engine = engine_with([node("a", cards("a", 1))], [])
    row = engine.state.nodes.row("a")
    assert row is not None
    device = engine.state.devices.position(row, "a-gpu-0")
    assert device is not None
    engine.state.devices.charge(device, (0, 7900, 0), 1)
    engine.observe_pod(pod("p"), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.placement is None
    assert engine.repair("a", 20.0)
    decision = engine.attempt(20.0)
    assert decision is not None
    assert decision.placement is not None


def test_what_was_seen_while_a_pod_ran_is_no_mistake() -> None:
    engine = engine_with([node("a", cards("a", 2))], [])
    for version, card in enumerate(("a-gpu-0", "a-gpu-1"), 1):
        notes = allocation("a", (card, 3000, 20))
        engine.observe_pod(pod("p", version=version, nodeName="a", started=True, annotations=notes), 0.0)
    before = engine.state.ledger()
    assert not engine.repair("a", 1.0)
    assert engine.state.ledger() == before
