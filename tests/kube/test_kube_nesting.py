"""No depth of an object keeps it, or others in the same list, from being read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.kube import DecodeError, decode_event, decode_items, decode_node, decode_page, decode_pod, loads
from vgpu_scheduler.kube.nesting import shallow

DEPTHS = [150, 999, 1500, 9900]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def deep(name: str, depth: int) -> str:
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    managed = f'[{{"manager":"x","fieldsV1":{fields}}}]'
    return f'{{"metadata":{{"name":"{name}","uid":"{name}","managedFields":{managed}}},"spec":{{"containers":[]}}}}'


@pytest.mark.parametrize("depth", DEPTHS)
def test_one_deep_object_hides_no_other(depth: int) -> None:
    listed = f'{{"metadata":{{"resourceVersion":"7"}},"items":[{deep("a", depth)},{deep("b", 1)}]}}'.encode()
    page = decode_page(listed)
    assert page.resource_version == "7"
    assert [pod.name for pod in decode_items(page, decode_pod)] == ["a", "b"]
    event = decode_event(f'{{"type":"ADDED","object":{deep("a", depth)}}}'.encode(), decode_node)
    assert event.object is not None
    assert event.object.name == "a"
    assert loads(deep("a", depth))["metadata"]["name"] == "a"


def test_what_is_deep_where_a_field_is_read_is_refused_by_name() -> None:
    for depth in DEPTHS:
        with pytest.raises(DecodeError):
            decode_pod(f'{{"metadata":{"[" * depth}{"]" * depth}}}'.encode())
        with pytest.raises(DecodeError):
            decode_pod(b'{"metadata":' + b"[" * depth)


@given(JSON, st.integers(1, 6))
def test_what_is_deeper_is_nothing_and_the_rest_as_it_was(value: object, deepest: int) -> None:
    def cut(part: object, level: int) -> object:
        if isinstance(part, dict | list) and level > deepest:
            return 0
        if isinstance(part, dict):
            return {key: cut(inner, level + 1) for key, inner in part.items()}
        return [cut(inner, level + 1) for inner in part] if isinstance(part, list) else part

    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only).encode()
        assert json.loads(shallow(text, deepest)) == cut(value, 1)


@given(st.binary(max_size=40) | st.text(st.sampled_from('[{}]"\\a,:'), max_size=40).map(str.encode))
def test_what_is_no_json_stays_none(data: bytes) -> None:
    try:
        json.loads(data)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            json.loads(shallow(data, 200))


@given(value=JSON, ascii_only=st.booleans())
def test_json_is_read_as_the_standard_library_reads_it(value: object, *, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert loads(text) == loads(text.encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    "text", ["[NaN]", '"\\ud800"', "[1e400]", "123456789012345678901234567890", " [1]\n", '{"a":1,"a":2}']
)
def test_what_only_the_standard_library_takes_is_taken(text: str) -> None:
    assert repr(loads(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "nul", "[1,]", "\x00"])
def test_what_is_no_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)


BEYOND = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2**70}}}


@pytest.mark.parametrize(
    "value",
    [{"spec": "\ud800"}, {"spec": {"containers": [{"name": "\ud800"}]}}, {"spec": {"containers": [BEYOND]}}],
    ids=["a text", "a text within", "an integer"],
)
def test_what_only_python_decodes_is_refused(value: dict[str, object]) -> None:
    """Half of a surrogate pair, or an integer of more than 64 bits: no encoder takes them."""
    with pytest.raises(DecodeError):
        decode_pod({"metadata": {"name": "a", "uid": "a"}, **value})
