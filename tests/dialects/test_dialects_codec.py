"""Registration and assignment annotations: what is written is read again, and nothing read does harm."""

import contextlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.hami_codec import encode_register_colon

from vgpu_scheduler.dialects.hami import (
    AssignedDevice,
    CodecError,
    RegisteredDevice,
    decode_assignments,
    decode_register,
    encode_assignments,
    encode_register_json,
    realign,
)

INT32 = 2**31 - 1

names = st.text(st.characters(codec="utf-8", exclude_characters=",:;[{"), min_size=1, max_size=12)
words = st.text(st.characters(codec="utf-8", exclude_characters=",:"), max_size=12)
amounts = st.integers(0, INT32)
devices = st.builds(AssignedDevice, names, words.map(lambda w: w.replace(";", "")), amounts, amounts)
allocations = st.lists(st.lists(devices, max_size=3).map(tuple), max_size=4)
signed = st.integers(-INT32 - 1, INT32)
registered = st.builds(
    RegisteredDevice,
    id=names,
    index=st.integers(0, 2**63 - 1),
    count=signed,
    devmem=signed,
    devcore=signed,
    type=words,
    numa=st.integers(-(2**63), 2**63 - 1),
    mode=words,
    health=st.booleans(),
)


@given(allocations)
def test_an_allocation_is_read_as_it_was_written(containers: list[tuple[AssignedDevice, ...]]) -> None:
    # One empty entry stands behind the last terminator.
    assert decode_assignments(encode_assignments(containers)) == [*containers, ()]


@given(allocations, st.integers(1, 5))
def test_every_round_through_a_plugin_appends_an_empty_entry(
    containers: list[tuple[AssignedDevice, ...]], rounds: int
) -> None:
    value = encode_assignments(containers)
    for _ in range(rounds):
        value = encode_assignments(decode_assignments(value))
    assert value == encode_assignments(containers) + ";" * rounds


@settings(max_examples=300)
@given(st.lists(registered, max_size=4))
def test_a_registration_is_read_as_it_was_written(listed: list[RegisteredDevice]) -> None:
    assert decode_register(encode_register_json(listed)) == listed
    assert decode_register(encode_register_colon(listed) or ":") == listed


@given(st.text(st.sampled_from('GPU-1,:;0[]{}"x +\n\0'), max_size=40) | st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    for decode in (decode_assignments, decode_register):
        with contextlib.suppress(CodecError):
            assert isinstance(decode(text), list)


@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 5000, "9" * 20])
def test_more_digits_than_a_number_has(digits: str) -> None:
    """``int()`` refuses thousands of them with another error; one in an annotation must not end the handler."""
    for decode, text in (
        (decode_assignments, f"a,NVIDIA,{digits},0:;"),
        (decode_register, f"a,{digits},1,100,T4,0,true:"),
        (decode_register, f'[{{"id":"a","count":{digits}}}]'),
    ):
        with pytest.raises(CodecError):
            decode(text)


def test_leading_zeros_are_no_digits() -> None:
    assert decode_assignments(f"a,NVIDIA,{'0' * 5000}1,+{'0' * 5000}:;")[0] == (AssignedDevice("a", "NVIDIA", 1, 0),)


def test_deeper_than_any_registration() -> None:
    with pytest.raises(CodecError, match="not JSON"):
        decode_register("[" * 100_000)


def test_text_that_cannot_be_written_again_is_replaced() -> None:
    (device,) = decode_register(r'[{"id":"GPU-\ud800-1"}]')
    assert device.id == "GPU-\N{REPLACEMENT CHARACTER}-1"


def test_keys_of_any_case_unknown_ones_and_absent_ones() -> None:
    (device,) = decode_register('[{"ID":"GPU-a","Count":4,"unknown":{},"mode":null}]')
    assert device == RegisteredDevice(id="GPU-a", count=4)
    assert not device.health


@pytest.mark.parametrize(
    "value",
    [
        "", "x", "x:", "a,1,2,3,T4,0,true", "a,1,2,3,T4,0,true,0:", "a,1,2,3,T4,0,yes:", "a,1_0,2,3,T4,0,true:",
        "a,١,2,3,T4,0,true:", "a,1,2,3,T4,0,true,-1,mig:", "{}", "[1]", "[null]", '[{"id":1}]', '[{"index":-1}]',
        '[{"count":1.5}]', '[{"count":true}]', '[{"count":2147483648}]', '[{"health":"true"}]', '[{"migProfiles":{}}]',
        '[{"custominfo":[]}]', "[{}] x",
    ],
)  # fmt: skip
def test_a_registration_counts_as_a_whole_or_not_at_all(value: str) -> None:
    with pytest.raises(CodecError):
        decode_register(value)


def test_zeros_are_absent_and_html_is_escaped() -> None:
    listed = [RegisteredDevice(id="GPU-a", type="<T4> & co", vendor="never written", custom_info={"a": 1})]
    assert encode_register_json(listed) == '[{"id":"GPU-a","type":"\\u003cT4\\u003e \\u0026 co"}]'
    assert json.loads(encode_register_json(listed)) == [{"id": "GPU-a", "type": "<T4> & co"}]


# Alignment ---------------------------------------------------------------------------------------------------------

one = AssignedDevice("a", "NVIDIA", 100, 10)
two = AssignedDevice("b", "NVIDIA", 200, 20)


@given(st.lists(st.booleans(), max_size=6), st.data())
def test_entries_find_their_containers(claimants: list[bool], data: st.DataObject) -> None:
    """Whichever empty entries the writer left out, and however many plugins have appended."""
    whole = [(AssignedDevice(f"card-{i}", "NVIDIA", i, 0),) if claims else () for i, claims in enumerate(claimants)]
    written = [entry for entry in whole if entry or data.draw(st.booleans())]
    noise = ";" * data.draw(st.integers(0, 3))
    decoded = decode_assignments(encode_assignments(written) + noise)
    assert realign(decoded, claimants) == whole


@pytest.mark.parametrize(
    ("value", "claimants", "aligned"),
    [
        (";a,NVIDIA,100,10:;", [False, True], [(), (one,)]),
        ("a,NVIDIA,100,10:;", [False, True], [(), (one,)]),
        ("a,NVIDIA,100,10:;;", [False, True], [(), (one,)]),
        ("a,NVIDIA,100,10:;;;;", [True], [(one,)]),
        ("a,NVIDIA,100,10:;b,NVIDIA,200,20:;", [True, False, True], [(one,), (), (two,)]),
        (";;b,NVIDIA,200,20:;", [True, False, True], [(), (), (two,)]),
        (";b,NVIDIA,200,20:;", [True, True, False, False], [(two,), (), (), ()]),
        ("", [True, False], [(), ()]),
        (";;;", [True], [()]),
        ("a,NVIDIA,100,10:;b,NVIDIA,200,20:;", [True], None),
        ("a,NVIDIA,100,10:;", [False, False], None),
    ],
)
def test_alignment(value: str, claimants: Sequence[bool], aligned: Sequence[tuple[AssignedDevice, ...]] | None) -> None:
    assert realign(decode_assignments(value), claimants) == aligned
