"""The newest version of each object counts, whatever order observations come in."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from vgpu_scheduler.kube import VersionedStore, store


@dataclass(frozen=True)
class Thing:
    uid: str
    resource_version: int


def test_older_versions_change_nothing() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    assert things.put("a", Thing("1", 5))
    assert not things.put("a", Thing("1", 4))
    assert things.put("a", Thing("1", 5))
    assert (things["a"].resource_version, things.version("a"), len(things)) == (5, 5, 1)


def test_what_is_gone_does_not_come_back_but_its_namesake_does() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    things.put("a", Thing("1", 5))
    assert things.remove("a", "1", 7)
    assert not things.put("a", Thing("1", 6))
    assert not things.put("a", Thing("1", 9))  # a UID never returns
    assert not things.put("a", Thing("2", 6))  # from before the end of the first
    assert things.was_removed("a")
    assert things.put("a", Thing("2", 8))
    assert not things.remove("a", "1", 9)
    assert not things.remove("a", "2", 7)  # newer than that
    assert "a" in things


def test_a_key_that_never_comes_back() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    assert not things.remove_forever("1")
    for version in (0, 9):
        assert not things.put("1", Thing("1", version))


def test_files_have_no_versions() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    assert things.put("a", Thing("", 0))
    assert things.remove("a", "", 0)
    assert things.put("a", Thing("", 0))


def test_a_list_shows_what_is_missing() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    for key, version in (("a", 3), ("b", 4), ("c", 9)):
        things.put(key, Thing(key, version))
    assert [thing.uid for thing in things.missing({"a"}, 5)] == ["b"]


def test_a_restored_store_may_say_anything() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    things.put("a", Thing("1", 50))
    things.remove("b", "2", 60)
    things.forget_versions()
    assert things.put("a", Thing("1", 5))
    assert things.put("b", Thing("2", 6))
    assert things.version("a") == 5


def test_the_oldest_ends_are_forgotten_unless_they_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_TOMBSTONES", 3)
    pinned = {"0"}
    things: VersionedStore[str, Thing] = VersionedStore(pinned.__contains__)
    for number in range(6):
        things.remove_forever(str(number))
    assert [key for key in map(str, range(6)) if things.was_removed(key)] == ["0", "4", "5"]
    pinned.clear()
    things.remove_forever("6")
    assert not things.was_removed("0")


def test_a_namesake_does_not_come_back_when_its_end_comes_before_that_of_the_first() -> None:
    things: VersionedStore[str, Thing] = VersionedStore()
    things.put("a", Thing("1", 5))
    assert not things.remove("a", "2", 8)
    assert "a" in things
    assert things.remove("a", "1", 6)
    assert not things.put("a", Thing("2", 7))
    assert not things.put("a", Thing("1", 6))
    assert things.put("a", Thing("3", 9))


events = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans()), max_size=8)


@given(events, st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_come_to_the_same(history: list[tuple[str, int, bool]], order: Random) -> None:
    """A history of objects that are made anew under their names, as the API server would write it."""
    written: list[tuple[str, Thing, bool]] = []
    living: dict[str, Thing] = {}
    for version, (key, serial, gone) in enumerate(history, 1):
        uid = living[key].uid if key in living else f"{key}{serial}-{version}"
        thing = Thing(uid, version)
        written.append((key, thing, gone))
        living[key] = thing
        if gone:
            del living[key]
    shown = written + order.sample(written, len(written) // 2)
    order.shuffle(shown)
    things: VersionedStore[str, Thing] = VersionedStore()
    for key, thing, gone in shown:
        if gone:
            things.remove(key, thing.uid, thing.resource_version)
        else:
            things.put(key, thing)
    assert {thing.uid: thing.resource_version for thing in things} == {
        thing.uid: thing.resource_version for thing in living.values()
    }
