"""Lists of a kind that overtake each other, as those of a stream and of a sweep may."""

from __future__ import annotations

import pytest
from tests.engine.builders import make_engine, node

from vgpu_scheduler.intake import NODES, Listing, Observer


@pytest.fixture
def observer() -> Observer:
    return Observer(make_engine(), lambda: 0.0, lambda _: None, lambda: None, lambda _: None)


def names(observer: Observer) -> list[str]:
    return [known.name for known in observer.engine.state.all_nodes()]


async def test_a_list_that_was_overtaken_by_a_newer_one_says_nothing(observer: Observer) -> None:
    older = Listing([node("a", version=3)], 10)
    await observer.sweep(NODES, Listing([node("b", version=12)], 20))
    await observer.sweep(NODES, older)
    assert names(observer) == ["b"]
    assert observer.engine.epoch == 0


async def test_a_later_list_of_a_lower_version_is_a_new_beginning(observer: Observer) -> None:
    await observer.sweep(NODES, Listing([node("b", version=12)], 20))
    await observer.sweep(NODES, Listing([node("a", version=3)], 10))
    assert names(observer) == ["a"]
    assert observer.engine.epoch == 1
    await observer.sweep(NODES, Listing([node("a", version=3), node("c", version=11)], 11))
    assert names(observer) == ["a", "c"]
    assert observer.engine.epoch == 1
