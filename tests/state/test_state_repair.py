"""Repair: whatever was booked wrongly on a node, its pods say what is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.calls import calls
from tests.engine.builders import allocation, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.state import State

Mistake = Callable[[State], object]


def two_pods() -> Engine:
    """Return an engine with two pods, each on a card of its own."""
    pods = [pod(f"p{n}", nodeName="a", annotations=allocation("a", (f"a-gpu-{n}", 3000, 20))) for n in range(2)]
    return engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], pods)


def forgotten(state: State) -> None:
    state._ledger.take_off("uid-p0")


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
        (forgotten, "pod default/p0 is not in the ledger"),
        (left_over, "pod default/p0 is in the ledger, but holds nothing there"),
        (miscounted, "the amounts of its cards differed from those that its pods hold"),
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
    assert engine.assumed.recheck("uid-waits") is not None


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


def test_some_nodes_are_rebuilt_as_all_are_whatever_became_of_their_pods() -> None:
    rng = np.random.default_rng(11)
    names = [f"n{number}" for number in range(6)]
    engine = engine_with([node(name, cards(name, 2)) for name in names])
    known: dict[str, str] = {}
    for step in range(300):
        name, home = f"p{rng.integers(12)}", str(rng.choice(names))
        if name in known and rng.random() < 0.3:
            engine.remove_pod(known.pop(name), float(step))
        elif name in known:  # it is bound, somewhere else after a restore, or ends
            more = {"nodeName": home, "annotations": allocation(home, (f"{home}-gpu-{rng.integers(2)}", 100, 1))}
            phase = str(rng.choice(["", "", "", "Failed"]))
            engine.observe_pod(pod(name, uid=known[name], version=step + 2, phase=phase, **more), float(step))
        else:
            known[name] = f"{name}-{step}"
            engine.observe_pod(pod(name, uid=known[name], version=step + 2), float(step))
            engine.attempt(float(step))
        state = engine.state
        whole = state.rebuild().ledger()
        for some in ([home], names[1:4], []):
            expected = {name: of for name, of in whole.items() if name in some}
            assert state.rebuild(some).ledger() == state.ledger(some) == expected


def effort(nodes: int) -> int:
    """Count the calls that it takes to compare two of so many nodes, each with pods."""
    names = [f"n{number}" for number in range(nodes)]
    pods = [
        pod(f"{name}-{i}", nodeName=name, annotations=allocation(name, (f"{name}-gpu-{i}", 1000, 10)))
        for name in names
        for i in range(3)
    ]
    state = engine_with([node(name, cards(name, 4)) for name in names], pods).state
    assert not state.drift(names[:2])
    return calls(lambda: state.drift(names[:2]))


def test_to_compare_two_nodes_costs_no_more_in_a_larger_cluster() -> None:
    assert effort(60) == effort(3)
