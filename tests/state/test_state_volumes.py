"""What is known of volumes follows from objects, pods and nodes, whatever the order of events; and comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.volumes_world import MOVES, Move, World

from vgpu_scheduler.kube import Claim, Volume
from vgpu_scheduler.model import Usage
from vgpu_scheduler.state import State, Volumes, Wanted

numbers = st.integers(0, 60)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=40)


def wanted_of(volumes: Volumes) -> list[Wanted]:
    return [Wanted.by(claim) for claim in volumes.objects.claims]


def told(state: State) -> object:
    """What is known, by the names of nodes; with the free volumes for every claim."""
    free = {wanted: state.volumes.free(wanted).as_values() for wanted in wanted_of(state.volumes)}
    return state.volumes.as_values(), free


def scratch(state: State) -> State:
    """A state from the objects, in an order of its own."""
    twin = State({"hami": 3})
    for known in state.pods():
        twin.observe_pod(known, {})
    for held in state.reservations():
        if held.uid not in {each.uid for each in twin.reservations()}:
            assert held.placement is not None
            twin.assume(held.uid, held.placement, Usage({}), held.requests)
    for known_node in state.all_nodes():
        twin.observe_node(known_node, {})
    for store in reversed(list(state.volumes.objects.stores())):
        for obj in reversed(list(store)):
            twin.volumes.observe(obj)
    return twin


def check(world: World) -> None:
    expected = told(world.state)
    assert told(scratch(world.state)) == expected
    assert told(world.state.rebuild()) == expected
    assert told(world.state.overlay()) == expected


@settings(max_examples=200, deadline=None)
@given(moves)
def test_it_equals_what_is_made_from_scratch(happened: list[Move]) -> None:
    world = World()
    for move in happened:
        world.move(move)
        for wanted in wanted_of(world.state.volumes):
            world.state.volumes.free(wanted)  # kept up from now on
    check(world)


def test_it_equals_what_is_made_from_scratch_at_length() -> None:
    rng = np.random.default_rng(5)
    for _ in range(8):
        world = World()
        for number, move in enumerate(rng.integers(0, 5000, (300, 4)).tolist()):
            world.move(tuple(move))
            for wanted in wanted_of(world.state.volumes):
                world.state.volumes.free(wanted)
            if number % 15 == 0:
                check(world)
        check(world)


def test_a_question_leaves_no_trace() -> None:
    rng, world = np.random.default_rng(9), World()
    for move in rng.integers(0, 5000, (300, 4)).tolist():
        world.move(tuple(move))
    before = told(world.state)
    held = list(world.state.reservations())
    assert any(each.volumes for each in held)
    for each in held:
        with world.state.uncounted(each.uid):
            pass
        with pytest.raises(ZeroDivisionError), world.state.uncounted(each.uid):
            raise ZeroDivisionError
        world.state.suspend(each.uid)
        world.state.resume(each)
    assert told(world.state) == before


def test_an_overlay_changes_on_its_own() -> None:
    rng, world = np.random.default_rng(13), World()
    for move in rng.integers(0, 5000, (300, 4)).tolist():
        world.move(tuple(move))
    before = told(world.state)
    view = world.state.overlay(without=[held.uid for held in world.state.reservations()])
    for store in view.volumes.objects.stores():
        for obj in list(store):
            view.volumes.forget(obj, 1 << 40)
    assert told(world.state) == before
    for claim in world.state.volumes.objects.claims:
        assert isinstance(claim, Claim)
    assert not any(isinstance(each, Volume) for each in view.volumes.objects.volumes)


def test_nothing_is_left_when_all_is_gone() -> None:
    rng, world = np.random.default_rng(17), World()
    for move in rng.integers(0, 5000, (400, 4)).tolist():
        world.move(tuple(move))
    state = world.state
    for held in list(state.reservations()):
        state.remove_pod(held.uid)
    for known in list(state.all_nodes()):
        state.remove_node(known.name)
    for store in state.volumes.objects.stores():
        for obj in list(store):
            state.volumes.forget(obj, 1 << 40)
    assert state.volumes.as_values() == Volumes().as_values()
