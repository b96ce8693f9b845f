"""MIG cards: what nodes register, what pods hold, and that nothing which is not explained is taken for free."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.test_dialects_usage import ALLOCATED, NODE, container, pod
from tests.naive import hami_mig

from vgpu_scheduler.dialects import CodecError
from vgpu_scheduler.dialects.hami import NvidiaRequests, RegisteredDevice, encode_register_json, hami_dialect, vendors
from vgpu_scheduler.dialects.hami.links import decode_pair_scores
from vgpu_scheduler.dialects.hami.mig import (
    SCHEMA,
    SLICES,
    MigAllocation,
    MigProfile,
    SliceSpan,
    decode_allocations,
    encode_allocations,
    pieces_of,
)
from vgpu_scheduler.dialects.hami.templates import MigGeometry, Template
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import MIG_ANNOTATION, MigAllowance
from vgpu_scheduler.kube import Node, decode_node, decode_pod
from vgpu_scheduler.model import Assignment, Device, Placement
from vgpu_scheduler.state import State

_SLICES = slice(SCHEMA.slices.start, SCHEMA.slices.stop)

A30 = (
    MigProfile("1g.6gb", 5952, 25, 1, tuple(SliceSpan(start, 1) for start in range(4))),
    MigProfile("2g.12gb", 12032, 50, 2, (SliceSpan(0, 2), SliceSpan(2, 2))),
    MigProfile("4g.24gb", 24192, 100, 4, (SliceSpan(0, 4),)),
)
OTHER_KEYS = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": "mig-0", "profile": "1g.6gb"}


def node(*cards: RegisteredDevice) -> Node:
    notes = {"hami.io/node-nvidia-register": encode_register_json(cards)}
    return decode_node({"metadata": {"name": "node", "uid": "node", "annotations": notes}, "spec": {}, "status": {}})


def mig(uuid: str, profiles: tuple[MigProfile, ...] = A30, **more: Any) -> RegisteredDevice:
    fields = {"count": 4, "devmem": 24576, "devcore": 100, "type": "NVIDIA A30", "mode": "mig", "health": True, **more}
    return RegisteredDevice(id=uuid, mig_profiles=profiles, **fields)


def devices(*cards: RegisteredDevice, names: NvidiaRequests | None = None) -> tuple[Device, ...]:
    return hami_dialect(vendors(names)).inventory.devices(node(*cards))


# Registration ------------------------------------------------------------------------------------------------------


def test_pieces_in_the_order_of_preference() -> None:
    (device,) = devices(mig("mig-0", A30[::-1]))
    assert device.total == (4, 24576, 100, 4, 1, 1, 1, 1, 0, 0, 0, 0)
    found = [(piece.profile, piece.start) for piece in device.pieces]
    assert found == [*(("1g.6gb", start) for start in (3, 2, 1, 0)), ("2g.12gb", 0), ("2g.12gb", 2), ("4g.24gb", 0)]
    assert device.pieces[5].amounts == (1, 12032, 50, 1, 0, 0, 1, 1, 0, 0, 0, 0)


def test_the_smaller_profile_then_fewer_slices_then_the_first_listed() -> None:
    one = (SliceSpan(0, 1),)
    listed = [MigProfile(name, memory, 0, slices, one) for name, memory, slices in
              (("b", 20, 2), ("a", 20, 2), ("c", 20, 1), ("d", 10, 9), ("3g.x", 30, 3))]  # fmt: skip
    assert [piece.profile for piece in pieces_of(listed)] == ["d", "c", "b", "a", "3g.x"]


def test_cards_in_other_modes_have_no_pieces() -> None:
    (device,) = devices(mig("x", mode="hami-core"))
    assert (device.pieces, device.total) == ((), (4, 24576, 100))


def test_placements_without_slices_are_none_and_those_beyond_a_card_are_refused() -> None:
    empty = MigProfile("1g.6gb", 5952, 25, 1, (SliceSpan(2, 0), SliceSpan(1, 1)))
    assert [(piece.start, piece.size) for piece in devices(mig("x", (empty,)))[0].pieces] == [(1, 1)]
    assert devices(mig("x", (MigProfile("1g.6gb", 1, 1, 1, None),)))[0].pieces == ()
    for span in (SliceSpan(SLICES, 1), SliceSpan(0, SLICES + 1)):
        with pytest.raises(CodecError, match=r"1g\.6gb.*beyond"):
            devices(mig("x", (MigProfile("1g.6gb", 1, 1, 1, (span,)),)))


def test_only_allowed_profiles_are_given_out() -> None:
    names = NvidiaRequests(
        mig_allowances=(MigAllowance(("A30",), ("2g.12gb", "9g")), MigAllowance(("NVIDIA",), ("1g.6gb",)))
    )
    first, second = devices(mig("x"), mig("y", type="NVIDIA A100"), names=names)
    assert {piece.profile for piece in first.pieces} == {"2g.12gb"}
    assert {piece.profile for piece in second.pieces} == {"1g.6gb"}
    assert first.total == devices(mig("x"))[0].total  # what others hold still has its place
    unnamed = NvidiaRequests(mig_allowances=(MigAllowance(("H100",), ("1g.10gb",)),))
    assert devices(mig("x"), names=unnamed) == devices(mig("x"))
    for models, profiles in (((), ("a",)), (("a",), ()), (("",), ("a",)), (("a",), ("",))):
        with pytest.raises(ValueError, match="must be named"):
            MigAllowance(models, profiles)


# The annotation ----------------------------------------------------------------------------------------------------

texts = st.text('abcXYZ019-. µ<>&"', min_size=1, max_size=8)
numbers = st.integers(0, 9)
entries = st.builds(
    MigAllocation, numbers, numbers, texts, texts, st.builds(SliceSpan, numbers, st.integers(1, 9)),
    st.none() | st.tuples(texts, numbers, numbers),
)  # fmt: skip


@given(st.lists(entries, max_size=5, unique_by=lambda entry: (entry.container, entry.device)))
def test_placements_are_read_as_they_were_written(listed: list[MigAllocation]) -> None:
    assert decode_allocations(encode_allocations(listed)) == listed


@pytest.mark.parametrize(
    "change",
    [
        {}, {"containerIndex": "0"}, {"containerIndex": -1}, {"deviceIndex": -1}, {"deviceIndex": None},
        {"gpuUUID": ""}, {"gpuUUID": 1}, {"profile": ""}, {"placement": {}}, {"placement": {"size": 2**32}},
        {"placement": []},
        {"placement": {"start": -1, "size": 1}}, {"placement": {"start": 0.0, "size": 1}}, {"migUUID": "x"},
        {"gpuInstanceID": 0}, {"migUUID": "x", "gpuInstanceID": 0}, {"migUUID": "x", "gpuInstanceID": 0,
        "computeInstanceID": 0}, {"migUUID": "", "gpuInstanceID": 0, "computeInstanceID": 0}, {"more": [1]},
    ],
)  # fmt: skip
def test_one_entry_as_the_twin_reads_it(change: dict[str, Any]) -> None:
    entry = {**OTHER_KEYS, "placement": {"start": 3, "size": 1}, **change}
    for value in (json.dumps([entry]), json.dumps([entry, entry]), json.dumps([{**entry, "deviceIndex": 1}, entry])):
        expected = hami_mig.decode(value)
        if expected is None:
            with pytest.raises(CodecError):
                decode_allocations(value)
        else:
            found = decode_allocations(value)
            assert encode_allocations(found) == hami_mig.encode(expected)


@given(st.text() | st.text('[]{}",:0123456789eE.-nul sizetar', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for decode in (decode_allocations, decode_pair_scores):
        with suppress(CodecError):
            decode(text)


def test_null_scores_are_none() -> None:
    (entry,) = decode_pair_scores('[{"uuid": "a", "score": {"b": null, "c": -1}}]')
    assert entry.score == {"b": 0, "c": -1}


# What pods hold ----------------------------------------------------------------------------------------------------


def placement(uuid: str, start: int, size: int = 1, *, number: int = 0, first: int = 0) -> dict[str, Any]:
    place = {"start": start, "size": size}
    return {"containerIndex": first, "deviceIndex": number, "gpuUUID": uuid, "profile": "1g.6gb", "placement": place}


def states(allocated: str, *placements: dict[str, Any], text: str | None = None, **spec: Any) -> dict[str, str]:
    """What becomes of two MIG cards and one other card of a node: free slices, or that it is out of service."""
    dialect, state = hami_dialect(), State({hami_dialect().name: len(hami_dialect().inventory.dimensions)})
    core = RegisteredDevice(id="core", count=4, devmem=24576, devcore=100, mode="hami-core", health=True, type="T")
    state.observe_node(
        node(mig("mig-0"), mig("mig-1"), core),
        {dialect.name: dialect.inventory.devices(node(mig("mig-0"), mig("mig-1"), core))},
    )
    notes = {NODE: "node", ALLOCATED: allocated}
    if placements or text is not None:
        notes[MIG_ANNOTATION] = json.dumps(placements) if text is None else text
    wire = decode_pod(pod(notes, **spec))
    state.observe_pod(wire, {dialect.name: dialect.allocation.usage(wire)})
    assert not state.drift()
    row = state.nodes.row("node")
    assert row is not None
    used, broken = dict(state.devices.usage(row)), state.devices.inconsistent(row)
    return {
        device.uuid: "out" if device.uuid in broken else
        "".join(str(number) for number, (has, taken) in
                enumerate(zip(device.total[_SLICES], used[device.uuid][_SLICES], strict=True)) if has > taken)
        for device in state.devices.devices(row)
    }  # fmt: skip


ONE = "mig-0,NVIDIA,5952,25:;"
TWO = "mig-0,NVIDIA,5952,25:mig-0,NVIDIA,5952,25:;"
FREE = {"mig-0": "0123", "mig-1": "0123", "core": ""}


@pytest.mark.parametrize(
    ("allocated", "placements", "changed"),
    [
        ("core,NVIDIA,5952,25:;", [], {}),
        (ONE, [placement("mig-0", 3)], {"mig-0": "012"}),
        (ONE, [placement("mig-0", 0, 2)], {"mig-0": "23"}),
        (ONE, [], {"mig-0": "out"}),
        (ONE, [placement("mig-1", 3)], {"mig-0": "out", "mig-1": "012"}),
        (ONE, [placement("mig-0", 3), placement("core", 0, number=1)], {"mig-0": "012", "core": "out"}),
        (ONE, [placement("mig-0", 3), placement("gone", 0, number=1)], {"mig-0": "out", "mig-1": "out"}),
        (ONE, [placement("mig-0", 3), placement("mig-1", 0, number=1)], {"mig-0": "012", "mig-1": "123"}),
        (ONE, [placement("mig-0", 7)], {"mig-0": "out"}),  # a slice that the card does not have
        (ONE, [placement("mig-0", 9)], {"mig-0": "out"}),
        (ONE, [placement("mig-0", 2**32 - 1, 2**32 - 1)], {"mig-0": "out"}),
        (TWO, [placement("mig-0", 3), placement("mig-0", 2, number=1)], {"mig-0": "01"}),
        (TWO, [placement("mig-0", 3)], {"mig-0": "out"}),  # HAMi joins the two and is content
        (ONE, [placement("mig-0", 3, first=4)], {"mig-0": "012"}),  # numbers of containers are shifted by old writers
        ("core,NVIDIA,5952,25:;", [placement("core", 0)], {"core": "out"}),
    ],
)
def test_what_a_pod_leaves_free(allocated: str, placements: list[dict[str, Any]], changed: dict[str, str]) -> None:
    assert states(allocated, *placements) == {**FREE, **changed}


@pytest.mark.parametrize("text", ["", "[", "{}", '[{"containerIndex": 0}]'])
def test_placements_that_cannot_be_read_are_missing(text: str) -> None:
    assert states(ONE, text=text) == {**FREE, "mig-0": "out"}


def test_a_pod_that_may_sit_anywhere_puts_every_mig_card_out_of_service() -> None:
    assert states("nonsense,") == {**FREE, "mig-0": "out", "mig-1": "out"}


# Templates ---------------------------------------------------------------------------------------------------------


def template_states(*allocated: str, **notes: str) -> list[bool]:
    """Whether a card that is registered without profiles, and one beside it without MIG, are in service."""
    registration = "t,4,24576,100,NVIDIA A30,0,true,0,mig:core,4,24576,100,NVIDIA A30,0,true,1,hami-core:"
    wire = {"metadata": {"name": "node", "annotations": {"hami.io/node-nvidia-register": registration}}, "status": {}}
    dialect, state = hami_dialect(), State({hami_dialect().name: len(hami_dialect().inventory.dimensions)})
    state.observe_node(decode_node(wire), {dialect.name: dialect.inventory.devices(decode_node(wire))})
    for number, value in enumerate(allocated):
        one = pod({NODE: "node", ALLOCATED: value, **notes})
        one["metadata"] |= {"uid": str(number), "name": str(number)}
        state.observe_pod(decode_pod(one), {dialect.name: dialect.allocation.usage(decode_pod(one))})
    row = state.nodes.row("node")
    assert row is not None
    return [uuid not in state.devices.inconsistent(row) for uuid in ("t", "core")]


def test_templates_of_a_card_without_profiles() -> None:
    wire = decode_node(
        {"metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": "t,4,1,2,NVIDIA A30,0,true,0,mig:"}}}
    )
    (device,) = hami_dialect().inventory.devices(wire)
    found = [(piece.profile, piece.template, piece.start) for piece in device.pieces]
    assert found == [*(("1g.6gb", 0, n) for n in range(4)), ("2g.12gb", 1, 0), ("2g.12gb", 1, 1), ("4g.24gb", 2, 0)]
    assert hami_dialect(vendors(NvidiaRequests(mig_geometries=()))).inventory.devices(wire)[0].pieces == ()


@pytest.mark.parametrize(
    ("allocated", "expected"),
    [
        (["t[0-0],NVIDIA,6144,10:;"], [True, True]),
        (["t[1-0],NVIDIA,12288,10:;", "t[1-1],NVIDIA,12288,0:;"], [True, True]),
        (["t[0-1],NVIDIA,6144,10:t[0-3],NVIDIA,6144,10:;"], [True, True]),
        (["t[0-0],NVIDIA,6144,10:;", "t[1-1],NVIDIA,12288,0:;"], [False, True]),  # two templates at once
        (["t[1-0],NVIDIA,6144,10:;", "t[1-0],NVIDIA,12288,0:;"], [False, True]),  # one instance twice
        (["t[0-7],NVIDIA,6144,10:;"], [False, True]),  # an instance that the card does not have
        (["t[3-0],NVIDIA,6144,10:;"], [False, True]),
        (["t[9-0],NVIDIA,6144,10:;"], [False, True]),
        (["t[99-0],NVIDIA,6144,10:;"], [False, True]),
        (["t[0-99],NVIDIA,6144,10:;"], [False, True]),
        (["t,NVIDIA,6144,10:;"], [False, True]),  # no instance
        (["core[0-0],NVIDIA,6144,10:;"], [True, False]),
        (["core[0-0]x,NVIDIA,6144,10:;", "gone[0-0],NVIDIA,1,1:;"], [True, True]),
    ],
)
def test_instances_that_no_template_explains_put_a_card_out_of_service(
    allocated: list[str], expected: list[bool]
) -> None:
    assert template_states(*allocated) == expected


def test_a_placement_does_not_explain_an_instance() -> None:
    notes = {MIG_ANNOTATION: json.dumps([placement("t", 0)])}
    assert template_states("t[0-0],NVIDIA,6144,10:;", **notes) == [False, True]
    assert template_states("t,NVIDIA,6144,10:;", **notes) == [False, True]


@pytest.mark.parametrize(
    ("models", "templates"),
    [((), ((("a", 1, 1),),)), (("",), ((("a", 1, 1),),)), (("m",), ()), (("m",), ((("a", 1, 9),),)), (("m",), ((),)),
     (("m",), ((("a", 1, 1),),) * 9)],
)  # fmt: skip
def test_geometries_that_no_card_has(models: tuple[str, ...], templates: tuple[Template, ...]) -> None:
    with pytest.raises(ValueError, match="template"):
        MigGeometry(models, templates)


def test_an_init_container_and_an_app_container_hold_the_same_placement() -> None:
    init = {**container("first", gpu="1", mem="5952"), "image": ""}
    both = ONE + ONE
    same = [placement("mig-0", 3), placement("mig-0", 3, first=1)]
    assert states(both, *same, initContainers=[init]) == {**FREE, "mig-0": "012"}
    apart = [placement("mig-0", 3), placement("mig-0", 0, 2, first=1)]
    assert states(both, *apart, initContainers=[init]) == {**FREE, "mig-0": "2"}


def test_what_is_written_is_what_is_read() -> None:
    (device,) = devices(mig("mig-0"))
    chosen = Placement("node", ((), tuple(Assignment("NVIDIA", "mig-0", piece.amounts, piece) for piece in
                                          (device.pieces[0], device.pieces[4]))))  # fmt: skip
    written = hami_dialect().allocation.annotations(chosen, 0)
    assert written[ALLOCATED] == ";mig-0,NVIDIA,5952,25:mig-0,NVIDIA,12032,50:;"
    assert written[MIG_ANNOTATION] == (
        '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"mig-0","profile":"1g.6gb","placement":{"start":3,"size":1}},'
        '{"containerIndex":1,"deviceIndex":1,"gpuUUID":"mig-0","profile":"2g.12gb","placement":{"start":0,"size":2}}]'
    )
    two = [container("a"), container("b", gpu="2", mem="5000")]
    usage = hami_dialect().allocation.usage(decode_pod(pod(written, containers=two)))
    assert usage.charges == {"mig-0": (2, 17984, 75, 2, 1, 1, 0, 1, 0, 0, 0, 0)}
    assert MIG_ANNOTATION not in hami_dialect().allocation.annotations(
        Placement("node", ((Assignment("NVIDIA", "core", (1, 2, 3)),),)), 0
    )
