"""What assumed placements rest on is kept no longer than their pods and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.engine.builders import allocation, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine


@pytest.fixture
def engine() -> Engine:
    """One with two nodes, and a pod that is to be bound on the first."""
    engine = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], [pod("p")])
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.placement is not None
    assert decision.placement.node == "a"
    return engine


def bases(engine: Engine) -> set[str]:
    return set(engine.state._decision_inputs._bases)


def listed(engine: Engine) -> set[str]:
    return set(engine.state._decision_inputs._device_lists)


def test_a_node_that_goes_leaves_nothing_behind(engine: Engine) -> None:
    assert listed(engine) == {"a", "b"}
    engine.remove_node("b")
    assert listed(engine) == {"a"}
    engine.remove_node("a")
    assert not listed(engine)


def test_many_nodes_that_come_and_go_leave_nothing_behind(engine: Engine) -> None:
    for number in range(50):
        engine.observe_node(node(f"n{number}", cards(f"n{number}", 1)), 0.0)
        engine.remove_node(f"n{number}")
    assert listed(engine) == {"a", "b"}


def test_a_placement_does_not_hold_on_a_node_that_was_made_anew() -> None:
    engine = engine_with([node("a", cards("a", 2))], [pod("p")])
    assert engine.attempt(0.0)
    asking = engine.state.pod("uid-p")
    assert asking is not None
    assert engine.state.unchanged_since_assumed("uid-p", asking)
    engine.remove_node("a")
    assert not engine.state.unchanged_since_assumed("uid-p", asking)
    engine.observe_node(node("in-its-row", cards("other", 2)), 0.0)
    engine.observe_node(node("a", cards("a", 2), uid="anew", version=5), 0.0)
    assert not engine.state.unchanged_since_assumed("uid-p", asking)


@pytest.mark.parametrize("names", [None, ["a"], ["b"]])
def test_a_rebuild_of_some_nodes_has_what_is_assumed_there(engine: Engine, names: list[str] | None) -> None:
    assert set(engine.state.ledger()) == {"a"}
    assert not engine.state.drift(names)


def confirm(engine: Engine) -> None:
    engine.binding_succeeded("uid-p")


def see_bound(engine: Engine) -> None:
    [held] = engine.state.reservations("a")
    [card] = held.uses["hami"].charges
    engine.observe_pod(pod("p", version=2, nodeName="a", annotations=allocation("a", (card, 1000, 0))), 0.0)
    assert engine.state.reservation("uid-p") != held


def see_ended(engine: Engine) -> None:
    engine.observe_pod(pod("p", version=3, nodeName="a", phase="Succeeded"), 0.0)


def see_deleted(engine: Engine) -> None:
    engine.remove_pod("uid-p", 0.0)


def unreserve(engine: Engine) -> None:
    engine.unreserve("uid-p", 0.0)


@pytest.mark.parametrize(
    "steps",
    [
        (unreserve,),
        (see_deleted,),
        (confirm, see_deleted),
        (confirm, see_bound, see_deleted),
        (see_bound, confirm, see_ended),
    ],
    ids=lambda steps: ", ".join(step.__name__ for step in steps),
)
def test_a_pod_that_goes_leaves_nothing_behind(engine: Engine, steps: Sequence[Callable[[Engine], None]]) -> None:
    assert bases(engine) == {"uid-p"}
    for step in steps:
        step(engine)
    assert not bases(engine)


@pytest.mark.parametrize("step", [confirm, see_bound])
def test_a_bound_pod_rests_on_nothing(engine: Engine, step: Callable[[Engine], None]) -> None:
    step(engine)
    assert not bases(engine)
    assert engine.state.reservation("uid-p") is not None
