"""Pods that leave a selection of unbound pods: whichever stream is ahead, in the end the same is known of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from tests.engine.builders import OURS, allocation, asks, cards, make_engine, node, pod, pod_object

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.final_states import UnknownFinalStates
from vgpu_scheduler.kube import Pod, decode_pod
from vgpu_scheduler.model import Outcome

ANNOUNCING = "announcing"
NOTES = allocation("a", ("a-gpu-0", 3000, 10))
HELD = {"a": {"a-gpu-0": (1, 3000, 10)}}
Step = Callable[[Engine], object]


def announced(version: int, **more: Any) -> Pod:
    return pod("p", scheduler=ANNOUNCING, annotations=NOTES, version=version, **more)


def nominated(version: int, to: str = "a") -> Pod:
    obj = pod_object("p", asks(0, cpu="12"), scheduler="third", version=version, priority=10)
    obj["status"]["nominatedNodeName"] = to
    return decode_pod(obj)


def engine_of_one_node() -> Engine:
    engine = make_engine(coexist_with=[ANNOUNCING])
    engine.observe_node(node("a", cards("a", 1)), 0.0)
    return engine


def left(version: int) -> Step:
    return lambda engine: engine.unbound_pods.leave_selection("uid-p", version, 0.0)


def shown(found: Pod) -> Step:
    return lambda engine: engine.observe_pod(found, 0.0)


def passed(version: int) -> Step:
    return lambda engine: engine.bound_pods_synced_to(version, 0.0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_pod_that_is_bound_is_charged_all_the_time(order: tuple[int, ...]) -> None:
    engine = engine_of_one_node()
    engine.observe_pod(announced(3), 0.0)
    steps = (left(5), shown(announced(5, nodeName="a")), passed(4))
    for number in order:
        steps[number](engine)
        assert engine.state.ledger() == HELD
    engine.bound_pods_synced_to(9, 1.0)
    assert engine.state.ledger() == HELD
    assert not engine.unbound_pods.unresolved(1.0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_pod_that_is_deleted_unbound_is_dropped_once_it_cannot_be_bound(order: tuple[int, ...]) -> None:
    engine = engine_of_one_node()
    engine.observe_pod(announced(3), 0.0)
    steps = (left(5), shown(announced(4)), passed(4))
    for number in order:
        steps[number](engine)
        assert engine.state.ledger() == HELD
    engine.bound_pods_synced_to(5, 1.0)
    assert engine.state.ledger() == {}
    assert engine.state.pod("uid-p") is None
    for late in (3, 4, 5):
        engine.observe_pod(announced(late), 2.0)
        assert engine.state.pod("uid-p") is None, "a late observation raised it"


def test_a_nomination_may_end_and_come_again() -> None:
    engine = engine_of_one_node()
    for version in (10, 20):
        engine.observe_pod(nominated(version), 0.0)
        assert "uid-p" in engine.state.nominations
        engine.unbound_pods.leave_selection("uid-p", version + 1, 0.0)
        assert "uid-p" in engine.state.nominations
        engine.bound_pods_synced_to(version + 1, 0.0)
        assert "uid-p" not in engine.state.nominations
        assert engine.state.pod("uid-p") is None
    engine.observe_pod(nominated(30), 0.0)
    engine.observe_pod(nominated(31, to=""), 0.0)  # as a read or a list shows it
    assert (engine.state.pod("uid-p"), bool(engine.state.nominations)) == (None, False)


def test_whoever_waited_for_its_room_is_woken() -> None:
    engine = engine_of_one_node()
    engine.observe_pod(nominated(3), 0.0)
    engine.observe_pod(pod("ours", asks(0, cpu="8")), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.outcome is Outcome.UNSCHEDULABLE
    engine.unbound_pods.leave_selection("uid-p", 4, 1.0)
    assert engine.attempt(2.0) is None
    engine.bound_pods_synced_to(4, 2.0)
    decision = engine.attempt(2.0)
    assert decision is not None
    assert decision.outcome is Outcome.PLACED


def test_what_the_api_has_confirmed_is_not_taken_for_gone() -> None:
    engine = engine_of_one_node()
    engine.observe_pod(pod("p", version=3), 0.0)
    assert engine.attempt(0.0) is not None
    engine.unbound_pods.leave_selection("uid-p", 5, 0.0)
    assert [found.name for found in engine.unbound_pods.unresolved(0.0)] == ["p"]
    engine.binding_succeeded("uid-p")
    assert not engine.unbound_pods.unresolved(0.0)
    engine.bound_pods_synced_to(9, 0.0)
    assert engine.state.reservation("uid-p") is not None


def test_one_that_was_assumed_and_is_deleted_gives_its_cards_back() -> None:
    engine = engine_of_one_node()
    engine.observe_pod(pod("p", version=3), 0.0)
    assert engine.attempt(0.0) is not None
    engine.unbound_pods.leave_selection("uid-p", 5, 0.0)
    engine.bound_pods_synced_to(5, 0.0)
    assert engine.state.ledger() == {}
    assert engine.attempt(9.0) is None


def test_fifty_thousand_pods_that_are_deleted_unbound_leave_nothing() -> None:
    engine = engine_of_one_node()
    for each in range(50_000):
        found = pod_object(f"p{each}", scheduler=OURS, version=2 * each + 1, schedulingGates=[{"name": "later"}])
        engine.observe_pod(decode_pod(found), 0.0)
        engine.unbound_pods.leave_selection(f"uid-p{each}", 2 * each + 2, 0.0)
        if each % 1000 == 999:
            engine.bound_pods_synced_to(2 * each + 2, 0.0)
    assert not list(engine.state.pods())
    assert (len(engine.queue), engine.unbound_pods.gated) == (0, 0)
    assert not engine.unbound_pods.unresolved(1.0)


def test_departures_that_are_settled_otherwise_leave_nothing() -> None:
    states = UnknownFinalStates()
    for number in range(10_000):
        states.note(f"uid-{number}", number + 1, 0.0)
        states.resolve(f"uid-{number}")
    states.note("last", 20_000, 0.0)
    assert len(states._by_version) < 200
    assert states.resolve_up_to(20_000, lambda _: False) == [("last", 20_000)]


def test_a_pod_that_may_be_an_unreadable_one_is_told_gone_once_that_one_can_be_read() -> None:
    states = UnknownFinalStates()
    states.note("p", 5, 0.0)
    assert states.resolve_up_to(6, lambda _: True) == []
    assert "p" in states
    assert states.resolve_up_to(7, lambda _: False) == [("p", 5)]
    assert "p" not in states
