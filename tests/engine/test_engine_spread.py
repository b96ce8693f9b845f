"""Spread constraints in decisions: who is kept where, what is said, who is woken, and the check before a bind."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import cards, engine_with, node, pod
from tests.engine.test_engine_interpod import decide, foreign, placed, zones

from vgpu_scheduler.model import Outcome

SKEWED = "node(s) didn't match pod topology spread constraints"
WEB = {"labels": {"app": "web"}}


def evenly(key: str = "zone", **more: Any) -> dict[str, Any]:
    """Return the part of a spec that spreads the pods of an application."""
    rule = {"topologyKey": key, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}, **more}
    return {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", **rule}], **WEB}


def test_pods_lie_evenly_although_binpack_would_have_them_together() -> None:
    engine = zones()
    where = [placed(engine, f"p{number}", **evenly())[0] for number in range(4)]
    assert sorted(where[:2]) == ["a", "b"]
    assert sorted(where[2:]) == ["a", "b"]


def test_a_pod_of_somebody_else_counts_and_one_that_is_being_deleted_does_not() -> None:
    engine = zones()
    engine.observe_pod(foreign("other", "a1", "web"), 0.0)
    assert placed(engine, "one", **evenly()) == "b1"
    engine.observe_pod(foreign("more", "a2", "web"), 0.0)
    assert placed(engine, "two", **evenly()) == "b1"
    engine.observe_pod(foreign("third", "b1", "web"), 0.0)
    gone = foreign("other", "a1", "web", version=9, deletionTimestamp="2026-01-01T00:00:00Z")
    engine.observe_pod(gone, 0.0)
    assert placed(engine, "three", **evenly())[0] == "a"


def test_the_message_counts_nodes_and_a_pod_that_comes_wakes_the_waiting_one() -> None:
    engine = engine_with([node("a1", cards("a1", 2), labels={"zone": "a"}), node("b1", (), labels={"zone": "b"})])
    assert placed(engine, "one", **evenly()) == "a1"
    engine.observe_pod(pod("two", **evenly()), 0.0)
    waits = decide(engine)
    assert waits.outcome is Outcome.UNSCHEDULABLE
    assert waits.message == f"0/2 nodes are available: 1 node unregistered, 1 {SKEWED}."
    engine.observe_pod(foreign("other", "b1", "web"), 1.0)
    decision = decide(engine, 2.0)
    assert decision.placement is not None
    assert decision.placement.node == "a1"


def test_pods_that_ask_the_same_of_a_node_share_what_is_known_of_nodes() -> None:
    engine = zones()
    plain, spread = (engine.algorithm.classes.of(pod(name, **spec)) for name, spec in (("x", WEB), ("y", evenly())))
    assert plain.node is spread.node  # type: ignore[union-attr]
    assert plain.cluster is None  # type: ignore[union-attr]


def test_a_placement_holds_beside_itself() -> None:
    engine = zones()
    placed(engine, "one", **evenly())
    held = engine.state.reservation("uid-one")
    assert held is not None
    engine.state.mark_rechecked("uid-one")
    assert engine.assumed.recheck("uid-one") == held.placement
    for number in range(2):
        engine.observe_pod(foreign(f"other-{number}", held.node, "web"), 0.0)
    moved = engine.assumed.recheck("uid-one")
    assert moved is None, "the zone is ahead by two without the pod"
