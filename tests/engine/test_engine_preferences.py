"""What somebody would like of nodes, in decisions: what it outweighs, what is left as it was, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.builders import cards, engine_with, node, pod
from tests.engine.test_engine_interpod import decide, foreign, placed
from tests.naive.predicates import PREFERRED

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.preferences import Preferences
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.policy import PolicyDefaults

WEB = {"app": "web"}


def two(weight: int = 2, **spec_of_b: Any) -> Engine:
    """Return an engine with two nodes, one of them in use: binpack would have everybody there."""
    nodes = [
        node("a", cards("a", 2), labels={"zone": "a"}),
        node("b", cards("b", 2), labels={"zone": "b"}, **spec_of_b),
    ]
    engine = engine_with(nodes, defaults=PolicyDefaults(device_weight=weight))
    assert placed(engine, "first", nodeSelector={"zone": "b"}, tolerations=[{"operator": "Exists"}]) == "b"
    return engine


def likes(zone: str, weight: int = 1) -> dict[str, Any]:
    """Return the part of a spec that prefers the nodes of a zone."""
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"affinity": {"nodeAffinity": {PREFERRED: [
        {"weight": weight, "preference": {"matchExpressions": [expression]}}]}}}  # fmt: skip


def near(app: str, kind: str = "podAffinity", key: str = "zone") -> dict[str, Any]:
    """Return the part of a spec that prefers to be near the pods of an application, or away from them."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}}}


def decided(engine: Engine, name: str, **more: Any) -> Decision:
    """Return what is decided of a pod, with the parts of all nodes."""
    asking = pod(name, **more)
    engine.observe_pod(asking, 1.0)
    return engine.algorithm.decide(asking, explain=True)


def points(decision: Decision) -> dict[str, dict[str, float]]:
    """Return the points of each plugin by node."""
    return {
        name: {part.scorer: part.normalised for part in parts if not part.within}
        for name, parts in decision.scores.items()
    }


def test_without_a_wish_binpack_decides() -> None:
    assert placed(two(), "p") == "b"


def test_a_preferred_node_outweighs_binpack() -> None:
    assert placed(two(), "p", **likes("a")) == "a"


def test_a_soft_taint_keeps_away() -> None:
    soft = [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]
    assert placed(two(taints=soft), "p") == "a"
    assert placed(two(taints=soft), "p", tolerations=[{"key": "k", "operator": "Exists"}]) == "b"


@pytest.mark.parametrize(("kind", "where"), [("podAffinity", "a"), ("podAntiAffinity", "b")])
def test_pods_that_a_pod_would_be_near_or_away_from(kind: str, where: str) -> None:
    engine = two()
    engine.observe_pod(foreign("other", "a", "web"), 0.0)
    assert placed(engine, "p", **near("web", kind)) == where


def test_pods_that_would_have_a_pod_near() -> None:
    engine = two()
    engine.observe_pod(pod("other", nodeName="a", scheduler="other", phase="Running", **near("web")), 0.0)
    assert placed(engine, "stranger") == "b"
    assert placed(engine, "p", labels=WEB) == "a"


def test_a_soft_spread_constraint_ranks_and_forbids_nothing() -> None:
    engine = two()
    rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": WEB}}  # fmt: skip
    evenly = {"labels": WEB, "topologySpreadConstraints": [rule]}
    engine.observe_pod(foreign("other", "b", "web"), 0.0)
    assert placed(engine, "one", **evenly) == "a"
    assert placed(engine, "two", nodeSelector={"zone": "a"}, **evenly) == "a", "it is a wish only"
    assert placed(engine, "three", **evenly) == "b"


def test_the_weight_of_devices_is_a_setting() -> None:
    """Of 100 points for the zone, times 2, and 100 at most for a full node."""
    engine = two(weight=1000)
    assert placed(engine, "p", **likes("a")) == "b"
    assert placed(two(weight=0), "p", **likes("a")) == "a"


def test_equal_sums_are_ranked_by_the_devices_and_then_by_name() -> None:
    engine = two(weight=0)
    everywhere = {"affinity": {"nodeAffinity": {PREFERRED: [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}}}  # fmt: skip
    assert placed(engine, "p", **everywhere) == "b"
    equivalence = engine_with([node(name, cards(name, 1), labels={"zone": "x"}) for name in ("n2", "n1", "n3")])
    assert placed(equivalence, "p", **everywhere) == "n1"


def test_wishes_that_all_nodes_meet_alike_leave_the_decision_to_the_devices() -> None:
    engine = two()
    met = decided(engine, "met", **likes("b"))
    assert points(met)["a"].keys() == {"device", "NodeAffinity"}
    met_by_none = decided(engine, "met-by-none", **likes("c"))
    assert met_by_none.placement is not None
    assert met_by_none.placement.node == "b"
    assert points(met_by_none) == points(decided(engine, "plain")), "no points are given"


def test_what_every_plugin_says_adds_up() -> None:
    engine = two()
    engine.observe_pod(foreign("other", "a", "web"), 0.0)
    wish = likes("a")
    wish["affinity"] |= near("web")["affinity"]
    decision = decided(engine, "p", **wish)
    assert points(decision) == {
        "a": {"device": 0.0, "NodeAffinity": 100.0, "InterPodAffinity": 100.0},
        "b": {"device": pytest.approx(points(decision)["b"]["device"]), "NodeAffinity": 0.0, "InterPodAffinity": 0.0},
    }
    assert 0 < points(decision)["b"]["device"] < 100
    assert decision.score == 400.0
    assert [part.scorer for part in decision.scores["b"] if part.within == "device"] == ["device/hami"]
    for parts in decision.scores.values():
        assert all(part.value == part.weight * part.normalised for part in parts if not part.within)
    short = engine.algorithm.decide(pod("p", **wish))
    assert short.scores == {"a": decision.scores["a"]}
    assert replace(short, scores={}) == replace(decision, scores={}, verdicts={})


def test_where_nobody_says_anything_decisions_are_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that are about others, taints that are tolerated or hard, and no choice: the same value as without."""
    engine = two(taints=[{"key": "k", "effect": "NoSchedule"}])
    tolerated = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    engine.observe_pod(pod("other", nodeName="a", scheduler="other", phase="Running", **near("web")), 0.0)
    asked = [
        {},
        tolerated,
        {**tolerated, "labels": {"app": "db"}},
        {**likes("a"), "nodeSelector": {"zone": "a"}},
        {**tolerated, **near("nobody")},
    ]
    with_plugins = [decided(engine, f"p{number}", **more) for number, more in enumerate(asked)]
    monkeypatch.setattr(Preferences, "rank", lambda *_: None)
    assert [decided(engine, f"p{number}", **more) for number, more in enumerate(asked)] == with_plugins
    assert all(not part.within for decision in with_plugins for parts in decision.scores.values() for part in parts)


def test_a_wish_that_cannot_be_understood_is_refused_where_there_is_a_choice() -> None:
    wrong = likes("a")
    wrong["affinity"]["nodeAffinity"][PREFERRED][0]["preference"]["matchExpressions"][0]["operator"] = "Gt"
    engine = two()
    assert placed(engine, "one", nodeSelector={"zone": "a"}, **wrong) == "a"
    engine.observe_pod(pod("two", **wrong), 0.0)
    decision = decide(engine)
    assert decision.outcome is Outcome.REFUSED
    assert f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference: operator Gt needs one integer" in decision.message


def test_the_order_of_events_makes_no_difference() -> None:
    names = ["n1", "n2", "n3", "n4"]
    found = set()
    for order in (names, names[::-1], names[2:] + names[:2]):
        engine = engine_with([node(name, cards(name, 2), labels={"zone": name[-1]}) for name in order])
        for name in order[::-1]:
            engine.observe_pod(foreign(f"at-{name}", name, "web" if name in "n1n3" else "db"), 0.0)
        found.add(tuple(placed(engine, f"p{number}", **near("web", "podAntiAffinity")) for number in range(4)))
    assert len(found) == 1


def test_pods_with_other_wishes_share_what_is_known_of_nodes() -> None:
    engine = two()
    parts = {id(engine.algorithm.classes.of(pod(zone, **likes(zone))).node) for zone in ("a", "b")}  # type: ignore[union-attr]
    assert len(parts) == 1
