"""Inter-pod terms in decisions: who is kept away, what is said, who is woken, and the check before a bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.naive.predicates import REQUIRED

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.kube import Namespace
from vgpu_scheduler.model import CardReason, ClusterEvent, Decision, Outcome
from vgpu_scheduler.predicates import reasons as filters

NEAR, AWAY, EXISTING = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


def term(app: str, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that keeps a pod away from others."""
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def zones() -> Engine:
    """Return an engine with nodes a1, a2 in zone a and b1 in zone b, each with two cards."""
    return engine_with([node(name, cards(name, 2), labels={"zone": name[0]}) for name in ("a1", "a2", "b1")])


def foreign(name: str, on: str, app: str = "", version: int = 1, **more: Any) -> Any:
    """Return a pod that another scheduler has bound."""
    labels = {"app": app} if app else {}
    return pod(name, asks(0), scheduler="default-scheduler", nodeName=on, labels=labels, version=version, **more)


def decide(engine: Engine, now: float = 0.0, **more: Any) -> Decision:
    decision = engine.attempt(now, **more)
    assert decision is not None
    return decision


def placed(engine: Engine, name: str, now: float = 0.0, **more: Any) -> str:
    """Decide a pod; return its node, empty if it waits."""
    engine.observe_pod(pod(name, **more), now)
    decision = decide(engine, now)
    assert decision.pod.endswith(f"/{name}")
    return decision.placement.node if decision.placement else ""


# What is decided ---------------------------------------------------------------------------------------------------


def test_a_pod_stays_away_from_those_that_keep_it_away() -> None:
    engine = zones()
    engine.observe_pod(foreign("guard", "a1", **away(term("web"))), 0.0)
    assert placed(engine, "web", labels={"app": "web"}) == "b1"
    assert placed(engine, "db", labels={"app": "db"}, nodeSelector={"zone": "a"})


def test_a_pod_stays_away_from_its_own_kind_also_while_that_is_only_assumed() -> None:
    engine = zones()
    spec: dict[str, Any] = {"labels": {"app": "web"}, **away(term("web"))}
    assert {placed(engine, "one", **spec), placed(engine, "two", **spec)} == {"a1", "b1"}
    assert placed(engine, "three", **spec) == ""


def test_the_first_of_its_kind_needs_nobody_and_the_next_one_goes_to_it() -> None:
    engine = zones()
    spec: dict[str, Any] = {"labels": {"app": "web"}, **near(term("web", "kubernetes.io/hostname"))}
    assert placed(engine, "one", **spec) == "", "no node has the topology"
    spec = {"labels": {"app": "web"}, **near(term("web"))}
    engine.observe_pod(foreign("large", "a1", "web"), 0.0)
    assert placed(engine, "two", **spec) in {"a1", "a2"}
    engine.remove_pod("uid-large", 0.0)
    assert placed(engine, "three", **spec) in {"a1", "a2"}


def test_what_is_said_of_each_node() -> None:
    engine = zones()
    engine.observe_node(node("c1", cards("c1", 2), unschedulable=True, labels={"zone": "c"}), 0.0)
    engine.observe_node(node("d1", labels={"zone": "d"}), 0.0)
    engine.observe_pod(foreign("guard", "a1", **away(term("web"))), 0.0)
    engine.observe_pod(foreign("web", "b1", "db"), 0.0)
    engine.observe_pod(pod("asks", labels={"app": "web"}, **away(term("db"))), 0.0)
    decision = decide(engine, explain=True)
    assert decision.message == (
        f"0/5 nodes are available: 1 node unregistered, 1 {AWAY}, 1 node(s) were unschedulable, 2 {EXISTING}."
    )
    assert {name: found.reasons for name, found in decision.verdicts.items()} == {
        "a1": (filters.INTER_POD_EXISTING,),
        "a2": (filters.INTER_POD_EXISTING,),
        "b1": (filters.INTER_POD_ANTI_AFFINITY,),
        "c1": (filters.UNSCHEDULABLE,),
        "d1": (CardReason.NodeUnregistered,),
    }
    assert decision.helped_by & ClusterEvent.ASSIGNED_POD_CHANGE
    assert decision.outcome is Outcome.UNSCHEDULABLE


def test_an_explanation_names_the_nodes_that_are_left_out() -> None:
    engine = zones()
    engine.observe_pod(foreign("guard", "a1", **away(term("web"))), 0.0)
    engine.observe_pod(pod("web", labels={"app": "web"}), 0.0)
    decision = decide(engine, explain=True)
    assert decision.scores.keys() == {"b1"}
    assert decision.verdicts.keys() == {"a1", "a2"}


# What is paid ------------------------------------------------------------------------------------------------------


def parts(engine: Engine, **more: Any) -> SchedulableClass:
    pod_class = engine.algorithm.classes.of(pod("p", **more))
    assert isinstance(pod_class, SchedulableClass)
    return pod_class


def test_without_terms_there_is_no_cluster_part_and_with_them_the_node_part_is_shared() -> None:
    engine = zones()
    plain = parts(engine)
    assert plain.cluster is None
    assert parts(engine, **away(term("web"))).node is plain.node
    assert parts(engine, **away(term("web"))).cluster == parts(engine, labels={"app": "x"}, **away(term("web"))).cluster
    own = parts(engine, namespace="another", **away(term("web")))
    assert own.cluster != parts(engine, **away(term("web"))).cluster
    engine.observe_pod(foreign("guard", "a1", **away(term("web"))), 0.0)
    assert parts(engine).cluster is not None
    assert parts(engine).cluster == parts(engine, namespace="another", labels={"app": "web"}).cluster
    engine.remove_pod("uid-guard", 0.0)
    assert parts(engine).cluster is None


def keep_filters(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have only so many filters of each plugin remembered, because each of them is heavy."""
    monkeypatch.setattr("vgpu_scheduler.engine.equivalence_classes._MADE", 2**30)
    monkeypatch.setattr("vgpu_scheduler.model.bounded_cache._MOST_HEAVY", number)


def test_terms_that_are_needed_no_more_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_filters(monkeypatch, 3)
    engine = zones()
    for number in range(10):
        placed(engine, f"p{number}", **away(term(f"job-{number}")), labels={"app": f"job-{number}"})
        engine.remove_pod(f"uid-p{number}", 0.0)
    assert len(engine.state.interpod.as_values()) == 3


# The check before a bind -------------------------------------------------------------------------------------------


def test_a_placement_holds_beside_its_own_kind_elsewhere() -> None:
    engine = zones()
    spec: dict[str, Any] = {"labels": {"app": "web"}, **away(term("web"))}
    placed(engine, "one", **spec)
    placed(engine, "two", **spec)
    for name in ("one", "two"):
        held = engine.state.reservation(f"uid-{name}")
        assert held is not None
        assert engine.assumed.recheck(f"uid-{name}") is held.placement
    spec = {"labels": {"app": "db"}, **near(term("db"))}
    assert placed(engine, "first", **spec)
    assert engine.assumed.recheck("uid-first") is not None


@pytest.mark.parametrize(
    "comes",
    [
        lambda engine, zone: engine.observe_pod(foreign("guard", f"{zone}1", **away(term("web"))), 0.0),
        lambda engine, zone: engine.observe_pod(foreign("other", f"{zone}1", "db"), 0.0),
        lambda engine, _: engine.remove_pod("uid-friend", 0.0),
    ],
    ids=["keeps it away", "is kept away", "was wanted"],
)
def test_a_placement_that_others_forbid_by_now_is_not_bound(comes: Callable[[Engine, str], Any]) -> None:
    engine = zones()
    engine.observe_pod(foreign("friend", "a1", "friend"), 0.0)
    affinity = {**away(term("db"))["affinity"], **near(term("friend"))["affinity"]}
    node_name = placed(engine, "web", labels={"app": "web"}, affinity=affinity)
    assert engine.assumed.recheck("uid-web") is not None
    comes(engine, node_name[0])
    assert engine.assumed.recheck("uid-web") is None


# Waking ------------------------------------------------------------------------------------------------------------


def waits(engine: Engine, **more: Any) -> None:
    """Let a pod be found unschedulable."""
    assert placed(engine, "waits", **more) == ""
    assert engine.attempt(0.0) is None


def woken(engine: Engine) -> str:
    """Return where the waiting pod goes, long before the queue is flushed."""
    decision = engine.attempt(20.0)
    return decision.placement.node if decision and decision.placement else ""


def test_a_pod_that_goes_wakes_those_that_it_kept_away() -> None:
    engine = zones()
    engine.observe_pod(foreign("guard-a", "a1", **away(term("web"))), 0.0)
    engine.observe_pod(foreign("guard-b", "b1", **away(term("web"))), 0.0)
    waits(engine, labels={"app": "web"})
    engine.remove_pod("uid-guard-b", 1.0)
    assert woken(engine) == "b1"


def test_a_node_that_goes_takes_its_pods_with_it() -> None:
    engine = zones()
    engine.remove_node("b1")
    engine.observe_pod(foreign("guard", "a1", **away(term("web"))), 0.0)
    waits(engine, labels={"app": "web"})
    engine.remove_node("a1")
    assert woken(engine) == "a2"


def test_a_pod_that_comes_wakes_those_that_want_to_be_near() -> None:
    engine = zones()
    waits(engine, **near(term("friend")))
    engine.observe_pod(foreign("friend", "b1", "friend"), 1.0)
    assert woken(engine) == "b1"


def test_a_pod_that_is_placed_here_wakes_those_that_want_to_be_near() -> None:
    engine = zones()
    waits(engine, **near(term("friend")))
    friend = placed(engine, "friend", 1.0, labels={"app": "friend"})
    assert woken(engine)[0] == friend[0]


def test_a_pod_that_changes_its_labels_wakes() -> None:
    engine = zones()
    engine.observe_pod(foreign("friend", "b1", "stranger"), 0.0)
    waits(engine, **near(term("friend")))
    engine.observe_pod(foreign("friend", "b1", "friend", version=2), 1.0)
    assert woken(engine) == "b1"


def test_a_namespace_that_changes_its_labels_wakes() -> None:
    engine = zones()
    engine.policy_tracker.observe_namespace(Namespace("default", {}, 1))
    engine.observe_pod(foreign("friend", "b1", "friend"), 0.0)
    waits(engine, **near(term("friend", namespaceSelector={"matchLabels": {"team": "x"}})))
    engine.policy_tracker.observe_namespace(Namespace("default", {"team": "x"}, 2))
    assert woken(engine) == "b1"


def test_namespaces_are_known_from_relists_too() -> None:
    engine = zones()
    selector = {"matchLabels": {"team": "x"}}
    engine.observe_pod(foreign("guard", "b1", **away(term("web", namespaceSelector=selector))), 0.0)
    engine.lists.relist("Namespace", 5).take(Namespace("default", {"team": "x"}, 1), 0.0)
    asking = pod("web", labels={"app": "web"}, nodeSelector={"zone": "b"})
    assert engine.algorithm.decide(asking).placement is None
    relist = engine.lists.relist("Namespace", 6)
    for gone in relist.missing():
        relist.remove(gone, 0.0)
    assert engine.algorithm.decide(asking).placement is not None


# More kinds of terms than are counted --------------------------------------------------------------------------------


def crowded(monkeypatch: pytest.MonkeyPatch, *more: str) -> Engine:
    """Return an engine that counts for one pod at a time, with two that wait for different friends, or more."""
    keep_filters(monkeypatch, 1)
    engine = zones()
    for app in ("friend", "buddy", *more):
        assert placed(engine, f"wants-{app}", **near(term(app))) == ""
    return engine


def test_pods_whose_terms_are_counted_no_more_are_woken_by_what_these_are_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = crowded(monkeypatch)
    engine.observe_pod(foreign("stranger", "a1", "stranger"), 20.0)
    assert engine.attempt(20.0) is None, "nobody wants to be near"
    engine.observe_pod(foreign("friend", "b1", "friend"), 20.0)
    decisions = [decision for _ in range(3) if (decision := engine.attempt(20.0)) is not None]
    assert [decision.pod for decision in decisions if decision.placement] == ["default/wants-friend"]
    engine.observe_pod(foreign("stranger-too", "a1", "stranger"), 40.0)
    assert engine.attempt(40.0) is None
    engine.observe_pod(foreign("buddy", "b1", "buddy"), 40.0)
    assert decide(engine, 40.0).placement


def test_what_nobody_who_waits_asks_for_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = crowded(monkeypatch)
    assert engine.state.interpod.any_forgotten
    for app in ("friend", "buddy"):
        engine.remove_pod(f"uid-wants-{app}", 1.0)
    assert engine.attempt(1.0) is None
    assert not engine.state.interpod.any_forgotten


def test_whoever_waits_is_woken_by_any_pod_once_too_much_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.state.interpod._MOST_BYTES", 0)
    engine = crowded(monkeypatch, "mate", "peer")
    engine.observe_pod(foreign("stranger", "a1", "stranger"), 20.0)
    assert engine.attempt(20.0) is not None
