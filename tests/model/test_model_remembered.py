"""What is remembered is bounded by bytes, whatever comes, and what was used last stays."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.model import Remembered, bytes_of
from vgpu_scheduler.model.remembered import ENTRY


def test_the_least_recently_used_are_forgotten() -> None:
    forgotten: list[int] = []
    remembered: Remembered[str, int] = Remembered(2 * ENTRY + 20, forgotten=forgotten.append)
    remembered.put("a", 1, 10)
    remembered.put("b", 2, 10)
    assert remembered.get("a") == 1
    remembered.put("c", 3, 10)
    assert forgotten == [2]
    assert list(remembered.items()) == [("a", 1), ("c", 3)]
    assert remembered.get("b") is None


def test_how_many_are_remembered_may_be_limited_besides() -> None:
    room, forgotten = [3], list[int]()
    remembered: Remembered[int, int] = Remembered(2**20, most=lambda: room[0], forgotten=forgotten.append)
    for key in (1, 2, 3):
        remembered.put(key, key, 0)
    assert forgotten == []
    room[0] = 2
    remembered.put(4, 4, 0)
    assert forgotten == [1, 2]


def test_the_newest_is_kept_however_heavy_unless_there_is_a_limit() -> None:
    forgotten: list[str] = []
    remembered: Remembered[int, str] = Remembered(1000, forgotten=forgotten.append)
    remembered.put(1, "light", 1)
    remembered.put(2, "heavy", 10_000)
    assert (remembered.get(2), forgotten) == ("heavy", ["light"])
    limited: Remembered[int, str] = Remembered(10_000, largest=1000)
    limited.put(1, "light", 1)
    limited.put(2, "heavy", 1000)
    assert (limited.get(1), limited.get(2), len(limited)) == ("light", None, 1)
    limited.put(1, "heavy now", 1000)
    assert (limited.get(1), limited.bytes) == (None, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2000), st.sampled_from(["put", "get", "pop"]))))
def test_it_is_a_dictionary_of_what_was_used_last(moves: list[tuple[int, int, str]]) -> None:
    most = 5000
    remembered, plain = Remembered[int, int](most), OrderedDict[int, int]()
    for key, weight, move in moves:
        if move == "put":
            remembered.put(key, weight, weight)
            plain[key] = weight
            plain.move_to_end(key)
        elif move == "pop":
            assert remembered.pop(key) == plain.pop(key, None)
        else:
            assert remembered.get(key) == plain.get(key)
            if key in plain:
                plain.move_to_end(key)
        while len(plain) > 1 and sum(plain.values()) + ENTRY * len(plain) > most:
            plain.popitem(last=False)
        assert list(remembered.items()) == list(plain.items())
        assert remembered.bytes == sum(plain.values()) + ENTRY * len(plain)


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
    remembered: Remembered[tuple[str, int], str] = Remembered(2**20)
    tracemalloc.start()
    try:
        for number in range(20_000):
            key, value = (f"{number:0100}", number), f"{number:0500}"
            remembered.put(key, value, bytes_of(key) + bytes_of(value))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 2**19 < taken < 2**20 * 1.1
