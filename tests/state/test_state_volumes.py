"""What is known of volumes follows from objects, pods and nodes, whatever the order of events; and comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.objects import Obj, pod
from tests.kube.storage_objects import SELECTED_NODE, claim, volume
from tests.state.volumes_world import MOVES, Move, World

from vgpu_scheduler.kube import decode_pod, decode_volume, decode_volume_claim
from vgpu_scheduler.model import VolumePlan
from vgpu_scheduler.state import State, VolumeRequirement, Volumes, from_size

numbers = st.integers(0, 60)
moves = st.lists(st.tuples(st.integers(0, MOVES - 1), numbers, numbers, numbers), max_size=40)


def wanted_of(volumes: Volumes) -> list[VolumeRequirement]:
    return [VolumeRequirement.by(claim) for claim in volumes.objects.claims]


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
            twin.assume(held.uid, held.placement, ())
    for known_node in state.all_nodes():
        twin.observe_node(known_node, {})
    for store in reversed(list(state.volumes.objects.stores())):
        for obj in reversed(list(store)):
            twin.volumes.observe(obj)
    return twin


def walked(volumes: Volumes, wanted: VolumeRequirement) -> list[tuple[int, str]]:
    """Look at every volume for those that will do for a claim."""
    free = (volume for volume in volumes.objects.volumes if volumes.reference(volume) is None)
    return sorted((volume.capacity, volume.name) for volume in free if wanted.accepts(volume))


def indexed(volumes: Volumes, wanted: VolumeRequirement, labels: list[dict[str, str]]) -> set[tuple[int, str]]:
    """Return those that are found at some nodes."""
    lists = [items for each in labels for items in volumes.free(wanted).at(each)]
    return {item for items in lists for item in items[from_size(items, wanted.size) :]}


def check(world: World) -> None:
    expected = told(world.state)
    labels = [dict(found.labels) for found in world.state.all_nodes()]
    for wanted in wanted_of(world.state.volumes):
        there = {
            (capacity, name)
            for capacity, name in walked(world.state.volumes, wanted)
            for reached in (world.state.volumes.objects.volumes[name].node_affinity,)
            if any(reached is None or reached.matches("", each) for each in labels)
        }
        assert indexed(world.state.volumes, wanted, labels) == there
    assert told(scratch(world.state)) == expected
    assert told(world.state.rebuild()) == expected


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
        with world.state.counting_across_nodes(without=[each]):
            pass
        with pytest.raises(ZeroDivisionError), world.state.counting_across_nodes(without=[each]):
            raise ZeroDivisionError
        with world.state.without([each.uid]):
            pass
    assert told(world.state) == before


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


# Whom a volume is kept for -------------------------------------------------------------------------------------------


def kept(*volumes: Obj) -> Volumes:
    known = Volumes()
    for obj in volumes:
        known.observe(decode_volume(obj))
    known.observe(decode_volume_claim(MINE))
    return known


MINE = claim("mine", size="2Gi")
FOR_MINE = {"claimRef": {"namespace": "ns", "name": "mine"}}


def test_of_several_volumes_that_are_kept_for_a_claim_the_first_that_will_do_is_its_own() -> None:
    mine = decode_volume_claim(MINE)
    known = kept(
        volume("a", size="1Gi", **FOR_MINE),
        volume("b", size="2Gi", bound_to=claim("mine", meta={"uid": "of-an-earlier-one"})),
        volume("c", size="2Gi", storage_class="another", **FOR_MINE),
        volume("e", size="9Gi", **FOR_MINE),
        volume("d", size="9Gi", **FOR_MINE, phase="Released"),
        volume("f", size="9Gi"),
    )
    found = known.kept_for(mine)
    assert found is not None
    assert found.name == "d"
    assert kept(volume("f", size="9Gi")).kept_for(mine) is None


def deciding(known: Volumes, name: str, **plan: Any) -> None:
    known.add(decode_pod(pod(name=name)), "n", VolumePlan(**plan))


def test_what_several_reservations_have_decided_lasts_until_the_last_is_given_back() -> None:
    known, mine = kept(volume("v", size="2Gi")), decode_volume_claim(MINE)
    free = known.free(VolumeRequirement.by(mine))
    assert free
    for name in ("one", "two"):
        deciding(known, name, matched={"ns/mine": "v"}, provisioned=("ns/other",))
    deciding(known, "odd", matched={"ns/a": "v"})
    other = decode_volume_claim(claim("other"))
    for gone, reference in (("two", "a"), ("odd", "mine")):
        found = known.reference(known.objects.volumes["v"])
        assert found is not None
        assert found.name == "a"
        assert known.selected_node(other) == "n"
        assert known.kept_for(mine) is None, "the first by name has it"
        known.remove(f"uid-{gone}")
        found = known.reference(known.objects.volumes["v"])
        assert found is not None
        assert found.name == reference
        assert not free
    assert known.kept_for(mine) is known.objects.volumes["v"]
    known.remove("uid-one")
    assert known.reference(known.objects.volumes["v"]) is None
    assert known.selected_node(other) is None
    assert known.kept_for(mine) is None
    assert list(next(free.at({}))) == [(2 << 30, "v")]


def test_what_is_written_goes_before_what_was_decided() -> None:
    known = kept(volume("v", size="2Gi"))
    deciding(known, "one", matched={"ns/mine": "v"}, provisioned=("ns/mine",))
    known.observe(decode_volume(volume("v", bound_to=claim("another"), meta={"resourceVersion": "6"})))
    found = known.reference(known.objects.volumes["v"])
    assert found is not None
    assert found.name == "another"
    for said in ("elsewhere", ""):
        assert (
            known.selected_node(decode_volume_claim(claim("mine", meta={"annotations": {SELECTED_NODE: said}}))) == said
        )


def test_free_volumes_of_rare_kinds_are_kept_up_for_the_latest_kinds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.state.free_volumes._KIND", 2**30)  # two are kept of what is as heavy as that
    known = kept(volume("v", size="9Gi"))
    wanted = [VolumeRequirement.by(decode_volume_claim(claim(storage_class=name))) for name in ("one", "two", "three")]
    first, second = known.free(wanted[0]), known.free(wanted[1])
    assert known.free(wanted[0]) is first
    known.free(wanted[2])
    assert known.free(wanted[0]) is first
    assert known.free(wanted[1]) is not second


def test_claims_that_differ_in_size_alone_share_what_is_kept_up() -> None:
    known = kept(volume("v", size="9Gi"))
    small, large = (VolumeRequirement.by(decode_volume_claim(claim(size=size))) for size in ("1Gi", "20Gi"))
    assert known.free(small) is known.free(large)
    assert indexed(known, small, [{}])
    assert not indexed(known, large, [{}])
