"""Labels that are alike are one object, and what is remembered of them is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.engine.builders import pod

from vgpu_scheduler.kube.decoding import SharedMaps


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=20))
def test_equal_maps_are_one_object_and_equal_what_was_given(given_maps: list[dict[str, str]]) -> None:
    shared = SharedMaps()
    for texts in given_maps:
        found = shared.get(dict(texts))
        assert found == texts
        assert found is shared.get(dict(texts))


def test_what_is_remembered_is_bounded_by_bytes() -> None:
    shared = SharedMaps(most_bytes=64_000)
    first = shared.get({"a": "b"})
    huge = [shared.get({"a": str(number) * 5000}) for number in range(9)]
    assert [shared.get(dict(each)) is each for each in huge[-2:]] == [True, True]
    assert shared.get(dict(huge[0])) is not huge[0]
    assert shared.get({"a": "b"}) is first
    for number in range(200):
        shared.get({"n": str(number)})
    assert shared.get({"a": "b"}) is not first


def test_no_labels_are_one_object() -> None:
    shared = SharedMaps()
    assert shared.get(None) is shared.get({})


def test_pods_of_a_workload_share_their_labels() -> None:
    one, other = (pod(name, labels={"app": "a", "tier": "b"}) for name in ("p", "q"))
    assert one.labels is other.labels
