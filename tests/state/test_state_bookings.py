"""Who holds what: ghosts, tombstones, widened and unreadable usage."""

from __future__ import annotations

import pytest
from tests.engine.builders import ALLOCATED, allocation, asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.model import Placement
from vgpu_scheduler.state import Phase, State

WHOLE = {"a": {"a-gpu-0": (1, 8000, 50)}}


def holding(**more: object) -> Engine:
    """Return an engine with node ``a`` (two cards) and a running pod on its first card."""
    running = pod("p", nodeName="a", started=True, annotations=allocation("a", ("a-gpu-0", 8000, 50)), **more)
    return engine_with([node("a", cards("a", 2))], [running])


def slots(state: State, name: str = "a") -> int:
    row = state.nodes.row(name)
    assert row is not None
    return int(state.nodes.used[row, state.nodes.resources.column("nvidia.com/gpu")])


# Ghosts --------------------------------------------------------------------------------------------------------------


def test_a_card_that_is_not_listed_for_a_while_is_still_held() -> None:
    engine = holding()
    engine.observe_node(node("a", cards("a", 2)[1:], version=2), 0.0)
    assert engine.state.ledger() == {}
    [held] = engine.state.reservations("a")
    assert list(held.uses["hami"].charges) == ["a-gpu-0"]
    engine.observe_node(node("a", cards("a", 2), version=3), 0.0)
    assert engine.state.ledger() == WHOLE
    engine.observe_node(node("a", [], version=4), 0.0)
    engine.remove_pod("uid-p", 0.0)
    engine.observe_node(node("a", cards("a", 2), version=5), 0.0)
    assert engine.state.ledger() == {}
    assert not engine.state.drift()


def test_a_node_that_is_deleted_and_made_anew_is_still_held() -> None:
    engine = holding()
    engine.remove_node("a")
    assert engine.state.ledger() == {}
    engine.observe_node(node("a", cards("a", 2), uid="anew", version=5), 0.0)
    assert engine.state.ledger() == WHOLE
    assert slots(engine.state) == 1
    assert not engine.state.drift()


def test_pods_that_end_while_their_node_is_away_hold_nothing_when_it_is_back() -> None:
    engine = holding()
    engine.remove_node("a")
    engine.remove_pod("uid-p", 0.0)
    engine.observe_node(node("a", cards("a", 2), uid="anew", version=5), 0.0)
    assert engine.state.ledger() == {}
    assert slots(engine.state) == 0


def test_pods_may_be_known_before_their_node() -> None:
    engine = engine_with([], [pod("p", nodeName="a", annotations=allocation("a", ("a-gpu-0", 8000, 50)))])
    engine.observe_node(node("a", cards("a", 2)), 0.0)
    assert engine.state.ledger() == WHOLE
    assert slots(engine.state) == 1


# Who counts ----------------------------------------------------------------------------------------------------------


def test_forged_allocations_of_unbound_pods_count_for_nothing() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.observe_pod(pod("p", annotations=allocation("a", ("a-gpu-0", 8000, 100))), 0.0)
    engine.observe_pod(pod("q", scheduler="another", annotations=allocation("a", ("a-gpu-0", 8000, 100))), 0.0)
    assert engine.state.ledger() == {}


def test_a_terminating_pod_holds_until_it_is_gone_and_a_terminal_one_nothing() -> None:
    notes = allocation("a", ("a-gpu-0", 8000, 50))
    engine = holding()
    engine.observe_pod(pod("p", version=2, nodeName="a", started=True, deleting=True, annotations=notes), 0.0)
    assert engine.state.ledger() == WHOLE
    engine.observe_pod(pod("p", version=3, nodeName="a", phase="Failed", deleting=True, annotations=notes), 0.0)
    assert engine.state.ledger() == {}
    assert slots(engine.state) == 0


@pytest.mark.parametrize(
    "notes",
    [
        {},
        {ALLOCATED: "a-gpu-0,NVIDIA,8000,50:;"},  # names no node
        allocation("b", ("a-gpu-0", 8000, 50)),
        {**allocation("a"), ALLOCATED: "a-gpu-0,NVIDIA,many,50:;"},
        {**allocation("a"), ALLOCATED: "a-gpu-0,NVIDIA,8000:;"},
        {**allocation("a"), ALLOCATED: ";"},
        {**allocation("a"), ALLOCATED: "a-gpu-0,NVIDIA,1,0:;a-gpu-1,NVIDIA,1,0:;"},
        {**allocation("a"), ALLOCATED: f"a-gpu-0,NVIDIA,{'9' * 5000},0:;"},
        {**allocation("a"), ALLOCATED: "a-gpu-0,NVIDIA,-5,0:;"},
    ],
    ids=["missing", "no node", "another node", "no number", "fields", "empty", "too many", "digits", "negative"],
)
def test_what_cannot_be_read_is_charged_on_every_card_once_the_pod_has_started(notes: dict[str, str]) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(pod("p", asks(1, 3000, 20), nodeName="a", annotations=notes), 0.0)
    assert engine.state.ledger() == {}  # nothing runs yet
    engine.observe_pod(pod("p", asks(1, 3000, 20), version=2, nodeName="a", annotations=notes, started=True), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-0": (1, 3000, 20), "a-gpu-1": (1, 3000, 20)}}
    engine.observe_node(node("a", cards("a", 3), version=2), 0.0)
    assert set(engine.state.ledger()["a"]) == {"a-gpu-0", "a-gpu-1", "a-gpu-2"}
    assert not engine.state.drift()
    engine.remove_pod("uid-p", 0.0)
    assert engine.state.ledger() == {}


def test_a_malformed_claim_that_runs_is_charged_as_whole_cards() -> None:
    engine = engine_with([node("a", cards("a", 1))])
    malformed = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "-5"}, "requests": {}}
    engine.observe_pod(pod("p", malformed, nodeName="a", started=True), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-0": (1, 8000, 100)}}


def test_a_rebuild_of_some_nodes_knows_the_pods_that_are_on_their_way_there() -> None:
    engine = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], [pod("p")])
    assert engine.attempt(0.0) is not None
    [held] = engine.state.reservations()
    assert not engine.state.drift([held.node])
    assert engine.state.rebuild({held.node}).ledger() == engine.state.ledger()


# Widened usage -------------------------------------------------------------------------------------------------------


def test_a_running_pod_is_charged_the_most_that_was_seen() -> None:
    engine = holding()
    smaller = allocation("a", ("a-gpu-1", 500, 60))
    engine.observe_pod(pod("p", version=2, nodeName="a", started=True, annotations=smaller), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-0": (1, 8000, 50), "a-gpu-1": (1, 500, 60)}}
    [held] = engine.state.reservations("a")
    assert held.widened
    assert engine.state.drift().keys() == {"a"}
    engine.observe_pod(pod("p", version=3, nodeName="a", phase="Succeeded", annotations=smaller), 0.0)
    assert engine.state.ledger() == {}
    assert not engine.state.drift()


def test_a_running_pod_whose_allocation_becomes_readable_stays_charged_everywhere_and_says_so() -> None:
    engine = engine_with([node("a", cards("a", 2))], [pod("p", asks(1, 3000, 20), nodeName="a", started=True)])
    notes = allocation("a", ("a-gpu-0", 3000, 20))
    engine.observe_pod(pod("p", asks(1, 3000, 20), version=2, nodeName="a", started=True, annotations=notes), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-0": (1, 3000, 20), "a-gpu-1": (1, 3000, 20)}}
    [held] = engine.state.reservations("a")
    assert held.widened  # the drift that this makes has a name


def test_a_running_pod_whose_allocation_becomes_unreadable_is_charged_both() -> None:
    engine = holding()
    engine.observe_pod(pod("p", asks(1, 3000, 60), version=2, nodeName="a", started=True), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-0": (1, 8000, 60), "a-gpu-1": (1, 3000, 60)}}


def test_before_a_pod_has_started_its_allocation_may_still_change() -> None:
    engine = engine_with([node("a", cards("a", 2))])
    for version, uuid in enumerate(("a-gpu-0", "a-gpu-1"), start=1):
        notes = allocation("a", (uuid, 1000, 0))
        engine.observe_pod(pod("p", version=version, nodeName="a", annotations=notes), 0.0)
    assert engine.state.ledger() == {"a": {"a-gpu-1": (1, 1000, 0)}}


# Late news -----------------------------------------------------------------------------------------------------------


def test_removed_pods_are_remembered_and_those_in_flight_longest() -> None:
    engine = engine_with([node("a", cards("a", 1))], [pod("flying")])
    assert engine.attempt(0.0)
    engine.remove_pod("uid-flying", 0.0)
    for number in range(10_001):
        engine.remove_pod(f"uid-{number}", 0.0)
    state = engine.state
    assert (state.was_removed("uid-flying"), state.was_removed("uid-0"), state.was_removed("uid-10000")) == (
        True,
        False,
        True,
    )
    engine.observe_pod(pod("flying", version=9, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1, 1))), 0.0)
    assert state.ledger() == {}
    engine.binding_succeeded("uid-flying")
    engine.remove_pod("uid-last", 0.0)
    assert not state.was_removed("uid-flying")


def test_only_known_pods_that_hold_nothing_can_be_assumed() -> None:
    engine = holding()
    [held] = engine.state.reservations("a")
    for uid in ("uid-p", "uid-nobody"):
        with pytest.raises(ValueError, match="cannot be assumed"):
            engine.state.assume(uid, held.placement or Placement("a", ()), ())


def test_only_an_assumption_can_be_forgotten() -> None:
    engine = holding()
    engine.observe_pod(pod("q"), 0.0)
    assert engine.attempt(0.0)
    engine.state.confirm("uid-q")
    engine.state.unreserve("uid-q")
    engine.state.unreserve("uid-p")
    assert {held.uid: held.phase for held in engine.state.reservations()} == {
        "uid-p": Phase.BOUND,
        "uid-q": Phase.CONFIRMED,
    }


def test_a_pod_that_is_bound_elsewhere_moves_its_charges() -> None:
    engine = engine_with([node("a", cards("a", 1)), node("b", cards("b", 1))], [pod("p")])
    assert engine.attempt(0.0)
    assert set(engine.state.ledger()) == {"a"}
    notes = allocation("b", ("b-gpu-0", 1000, 0))
    engine.observe_pod(pod("p", version=2, nodeName="b", annotations=notes), 0.0)
    assert set(engine.state.ledger()) == {"b"}
    assert (slots(engine.state, "a"), slots(engine.state, "b")) == (0, 1)


def test_usage_beyond_capacity_is_named() -> None:
    engine = holding()
    engine.observe_pod(pod("q", nodeName="a", annotations=allocation("a", ("a-gpu-0", 1, 0))), 0.0)
    assert engine.state.over_capacity() == {"a": ["a-gpu-0"]}
