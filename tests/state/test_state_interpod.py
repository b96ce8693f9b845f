"""The counters of inter-pod terms: they always equal a recount, and go when nobody uses them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.interpod_world import APPS, MOVES, TERMS, Move, World, asking

from vgpu_scheduler.kube import PodSelector, decode_node, decode_pod
from vgpu_scheduler.state import NodeCounts, ResidentTerm, State
from vgpu_scheduler.state.columns import InternedColumn
from vgpu_scheduler.state.resident_terms import ResidentTerms

SELECTORS: list[tuple[PodSelector, ...]] = [
    tuple(term.of("n0", APPS[1]).pods for term in terms)
    for number in range(len(TERMS))
    for spec in [decode_pod(asking("p", 1, number, 0)).spec]
    for terms in (spec.required_pod_affinity, spec.required_pod_anti_affinity)
    if terms
]


def check(world: World) -> None:
    """Compare the counts with those of a state that is made from the objects now."""
    state, twin = world.state, world.state.rebuild()
    for selectors in SELECTORS:
        twin.interpod.acquire(selectors, twin.nodes.row)
    assert by_name(state) == by_name(twin)
    check_topologies(state)


def check_topologies(state: State) -> None:
    """Compare the counts of topologies, which events keep from now on, with the labels of the nodes."""
    for counter in (*state.interpod._counters.values(), *residents(state)):
        check_counts(state, counter.nodes)


def check_counts(state: State, counts: NodeCounts) -> None:
    for key in ("host", "zone", "rack", "none"):
        column, expected = state.nodes.labels.column(key), Counter[str]()
        for row, count in counts.as_values().items():
            node = state.node(state.nodes.name(row))
            assert node is not None
            if key in node.labels:
                expected[node.labels[key]] += count
        *found, without = counts.by_value(column).tolist()
        assert {value: count for value, count in zip(column.values, found, strict=True) if count} == expected
        assert without == 0


def kinds(state: State) -> tuple[ResidentTerms, ...]:
    return state.interpod._anti_affinity, state.interpod._preferences


def residents(state: State) -> list[ResidentTerm]:
    return [found for terms in kinds(state) for found in terms._terms.values()]


def by_name(state: State) -> dict[object, dict[str, int]]:
    return {
        what: {state.nodes.name(row): count for row, count in counts.items()}
        for what, counts in state.interpod.as_values().items()
    }


def counted() -> World:
    world = World()
    for selectors in SELECTORS:
        world.state.interpod.acquire(selectors, world.state.nodes.row)
    return world


numbers = st.integers(0, 40)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=40))
def test_counters_equal_a_recount(moves: list[Move]) -> None:
    world = counted()
    for number, move in enumerate(moves):
        world.move(move)
        if number == len(moves) // 2:
            check(world)
    check(world)


def test_counters_equal_a_recount_at_length() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        world = counted()
        for number, move in enumerate(rng.integers(0, 1000, (400, 4)).tolist()):
            world.move(tuple(move))
            if number % 20 == 0:
                check(world)
        assert any(world.state.interpod.as_values().values())


def test_a_question_leaves_no_trace() -> None:
    rng, world = np.random.default_rng(7), counted()
    for move in rng.integers(0, 1000, (200, 4)).tolist():
        world.move(tuple(move))
    check(world)
    before = by_name(world.state)
    for held in list(world.state.reservations()):
        with world.state.counting_across_nodes(without=[held]):
            check_topologies(world.state)
        with pytest.raises(ZeroDivisionError), world.state.counting_across_nodes(without=[held]):
            raise ZeroDivisionError
    assert by_name(world.state) == before
    check(world)


def test_topologies_are_counted_anew_only_when_their_label_changes() -> None:
    column, counts = InternedColumn[str](8), NodeCounts()
    for row in range(8):
        column.set(row, f"zone-{row % 2}")
        counts.add(row, 1)
    found = counts.by_value(column)
    assert found.tolist() == [4, 4, 0]
    counts.add(3, 2)
    counts.clear(0)
    column.set(5, "zone-1")  # as before
    assert counts.by_value(column) is found
    assert found.tolist() == [3, 6, 0]
    column.set(5, None)
    counts.add(4, 1)  # nobody has asked since
    assert counts.by_value(column).tolist() == [4, 5, 0]
    column.set(5, "zone-2")
    assert counts.by_value(column).tolist() == [4, 5, 1, 0]


def test_counters_and_terms_are_dropped_with_their_last_user() -> None:
    world = counted()
    state = world.state
    again = [state.interpod.acquire(selectors, state.nodes.row) for selectors in SELECTORS]
    for counter in again:
        state.interpod.release(counter)
    assert len(state.interpod.as_values()) == len(set(SELECTORS))
    for counter in again:
        while counter.users:
            state.interpod.release(counter)
    assert not state.interpod.as_values()
    rng = np.random.default_rng(5)
    for move in rng.integers(0, 1000, (100, 4)).tolist():
        world.move(tuple(move))
    assert state.interpod.any_anti_affinity
    for known in list(state.pods()):
        state.remove_pod(known.uid)
    assert not state.interpod.any_anti_affinity
    assert not state.interpod.as_values()
    for index in (state.interpod._counters_by_label, *(terms._by_label for terms in kinds(state))):
        assert not list(index.candidates({"app": "web", "rev": "1"}))
        assert not index._by_label
        assert not index._others


def test_heartbeats_of_nodes_change_nothing() -> None:
    world = counted()
    world.move((0, 1, 1, 1))
    world.move((4, 1, 3, 1))
    before = by_name(world.state)
    known = world.nodes["node-1"]
    known["metadata"]["resourceVersion"] = "99"
    world.state.observe_node(decode_node(known), {})
    assert by_name(world.state) == before
