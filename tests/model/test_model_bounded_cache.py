"""What is remembered is bounded by bytes, whatever comes, and what was used last stays."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.model import BoundedCache, bytes_of
from vgpu_scheduler.model.bounded_cache import ENTRY


def test_the_least_recently_used_are_forgotten() -> None:
    forgotten: list[int] = []
    remembered: BoundedCache[int, int] = BoundedCache(70 * ENTRY + 20, forgotten=forgotten.append)
    for key in range(70):
        remembered.put(key, key, 0)
    assert remembered.get(0) == 0
    remembered.put(70, 70, 0)
    assert forgotten == [1]
    assert [key for key, _ in remembered.items()] == [*range(2, 70), 0, 70]
    assert remembered.get(1) is None


def test_heavy_values_push_out_each_other_only() -> None:
    forgotten: list[str] = []
    remembered: BoundedCache[str, str] = BoundedCache(100 * ENTRY, forgotten=forgotten.append)
    remembered.put("light", "light", 0)
    for key in ("a", "b", "c"):
        remembered.put(key, key, 1000 * ENTRY)
        assert remembered.get("a") == "a"
    assert forgotten == ["b"]
    assert (remembered.get("light"), remembered.get("b"), len(remembered)) == ("light", None, 3)
    remembered.put("light", "heavy now", 1000 * ENTRY)
    assert (remembered.bytes, forgotten, remembered.get("light")) == (0, ["b", "c"], "heavy now")
    assert (remembered.pop("a"), remembered.pop("a")) == ("a", None)
    remembered.clear()
    assert (len(remembered), forgotten) == (0, ["b", "c"])


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2000), st.sampled_from(["put", "get", "pop"]))))
def test_it_is_a_dictionary_of_what_was_used_last(moves: list[tuple[int, int, str]]) -> None:
    most, heavy = 64 * 1000, 1000 - ENTRY
    remembered, light, others = BoundedCache[int, int](most), OrderedDict[int, int](), OrderedDict[int, int]()
    for key, weight, move in moves:
        if move == "put":
            remembered.put(key, weight, weight)
            light.pop(key, None)
            others.pop(key, None)
            (others if weight > heavy else light)[key] = weight
        elif move == "pop":
            assert remembered.pop(key) == light.pop(key, others.pop(key, None))
        else:
            assert remembered.get(key) == {**light, **others}.get(key)
            for plain in (light, others):
                if key in plain:
                    plain.move_to_end(key)
        while len(light) > 1 and sum(light.values()) + ENTRY * len(light) > most:
            light.popitem(last=False)
        while len(others) > 2:
            others.popitem(last=False)
        assert list(remembered.items()) == [*light.items(), *others.items()]
        assert remembered.bytes == sum(light.values()) + ENTRY * len(light)


class Record(msgspec.Struct, frozen=True):
    text: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    record: Record
    texts: dict[str, str]


def test_a_value_is_weighed_with_all_that_it_holds() -> None:
    long = "x" * 1000
    assert bytes_of(long) > 1000
    assert bytes_of("🙂" + long) > 4000  # one such character makes all of a text wide
    plain = bytes_of(Value(Record("a"), {}))
    assert bytes_of(Value(Record("a", (long, long)), {"a": long, long: "b"})) > plain + 4000
    assert bytes_of((1, None, 2.0, b"x" * 1000, frozenset({long}))) > 2000


def test_what_is_said_to_be_kept_is_kept() -> None:
    remembered: BoundedCache[tuple[str, int], str] = BoundedCache(2**20)
    tracemalloc.start()
    try:
        for number in range(20_000):
            key, value = (f"{number:0100}", number), f"{number:0500}"
            remembered.put(key, value, bytes_of(key) + bytes_of(value))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 2**19 < taken < 2**20 * 1.1
