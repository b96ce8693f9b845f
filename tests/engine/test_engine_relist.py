"""Consistent lists: what they do not show is gone, and one of an older store is a new beginning."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.engine.builders import allocation, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine, ObservationSignals
from vgpu_scheduler.intake import NODES, PODS, Kind, Listing, Observer
from vgpu_scheduler.model import Decision, Outcome


def relisted(engine: Engine, kind: Kind[Any], listed: list[Any], version: int) -> int:
    """Have a list taken in that was asked for just now; return how many objects were gone."""
    observer = Observer(engine, lambda: 0.0, ObservationSignals(), lambda _: None)
    asyncio.run(observer.relist(kind, Listing(listed, version, since=engine.lists.listed(kind.name))))
    return observer.stats.missed_deletions


def attempt(engine: Engine) -> Decision:
    decision = engine.attempt(0.0)
    assert decision is not None
    return decision


def test_a_relist_takes_away_what_is_not_listed_but_nothing_newer_and_nothing_in_flight() -> None:
    engine = engine_with([node("a", cards("a", 2), version=1), node("b", version=50)], [pod("flying", version=2)])
    attempt(engine)
    engine.observe_pod(pod("old", version=3), 0.0)
    engine.observe_pod(pod("new", version=60), 0.0)
    assert relisted(engine, PODS, [], 40) == 1
    assert relisted(engine, NODES, [], 40) == 1
    assert {known.name for known in engine.state.pods()} == {"flying", "new"}
    assert [known.name for known in engine.state.all_nodes()] == ["b"]


def test_a_list_with_a_lower_version_is_a_new_beginning() -> None:
    engine = engine_with([node("a", cards("a", 2), version=7)])
    bound = pod("p", version=90, nodeName="a", annotations=allocation("a", ("a-gpu-0", 1000, 0)))
    relisted(engine, PODS, [bound, pod("q", version=95, nodeName="a")], 100)
    engine.remove_pod("uid-r", 0.0)
    relisted(engine, PODS, [pod("p", version=5), pod("r", version=6)], 10)
    assert engine.state.ledger() == {}
    assert {known.name for known in engine.state.pods()} == {"p", "r"}
    assert ("uid-p" in engine.queue, "uid-r" in engine.queue) == (True, True)


def test_after_a_new_beginning_a_namesake_of_low_version_is_known() -> None:
    engine = engine_with()
    relisted(engine, NODES, [node("a", version=90, uid="one")], 100)
    relisted(engine, NODES, [], 10)
    engine.observe_node(node("a", version=11, uid="two"), 0.0)
    assert [known.uid for known in engine.state.all_nodes()] == ["two"]


def test_a_confirmed_binding_that_a_restored_store_forgot_is_tried_again() -> None:
    engine = engine_with([node("a", cards("a", 2), version=7)])
    relisted(engine, PODS, [pod("p", version=90)], 100)
    attempt(engine)
    engine.binding_succeeded("uid-p")
    relisted(engine, PODS, [pod("p", version=5)], 10)
    assert engine.state.reservation("uid-p") is None
    assert attempt(engine).outcome is Outcome.PLACED
