"""Groups that Kubernetes' own PodGroups describe: how their pods are placed, and what the objects are to say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_pod_groups import attempt
from tests.engine.test_engine_relist import relisted

from vgpu_scheduler.engine import Engine, Requeue
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.intake import POD_GROUPS
from vgpu_scheduler.kube import Condition, Pod, PodGroup
from vgpu_scheduler.model import Outcome

NEWER, OLDER = [next(each for each in POD_GROUPS if each.name == kind.name) for kind in POD_GROUP_KINDS[:2]]


def member(name: str, memory: int = 1000, group: str = "team", **more: Any) -> Pod:
    return pod(name, asks(1, memory), schedulingGroup={"podGroupName": group}, **more)


def described(minimum: int, version: int = 10, condition: Condition | None = None, **spec: Any) -> PodGroup:
    """Return a gang; a minimum of 0 stands for the basic policy."""
    metadata = {"name": "team", "namespace": "default", "uid": "group", "resourceVersion": str(version)}
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    said = condition and {
        "type": "PodGroupScheduled",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    status = {"conditions": [said] if said else []}
    return OLDER.decode({"metadata": metadata, "spec": {"schedulingPolicy": policy, **spec}, "status": status})


def observe(engine: Engine, group: PodGroup) -> None:
    engine.kinds[OLDER.name].observe(group, 0.0)


def fleet(number: int, *pods: Pod, group: PodGroup | None = None) -> Engine:
    """Return an engine with a node of so many cards of 8000 MiB, whose API server serves the older version."""
    engine = engine_with([node("a", cards("a", number))], pods)
    relisted(engine, OLDER, [group] if group else [], 10)
    return engine


def messages(engine: Engine, now: float = 0.0) -> set[str]:
    return {decision.message for decision in engine.schedule_next(now)}


def said(engine: Engine) -> list[Condition]:
    return [each.condition for each in engine.group_conditions.take()]


def test_pods_wait_where_the_api_server_serves_no_such_object() -> None:
    engine = engine_with([node("a", cards("a", 1))], [member("p0")])
    waits = "which says how many pods the group needs, is of a kind that the API server does not serve."
    assert messages(engine) == {f"{NEWER.name} default/team, {waits}"}
    assert not engine.request_warnings_of(member("p0"))
    relisted(engine, OLDER, [described(1)], 20)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED)]


def test_pods_wait_for_the_object_that_they_name() -> None:
    engine = fleet(4, *(member(f"p{number}") for number in range(4)))
    waits = f"{OLDER.name} default/team, which says how many pods the group needs, does not exist."
    assert [messages(engine) for _ in range(4)] == [{waits}] * 4
    observe(engine, described(4))
    assert attempt(engine, 20.0) == [(f"p{number}", Outcome.PLACED) for number in range(4)]


def test_a_gang_is_placed_whole_and_pods_of_a_basic_group_one_by_one() -> None:
    engine = fleet(2, member("p0", 8000), member("p1", 8000), member("p2", 8000), group=described(3))
    assert {outcome for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    assert not list(engine.state.reservations())
    basic = fleet(2, member("p0", 8000), member("p1", 8000), member("p2", 8000), group=described(0))
    outcomes = [attempt(basic) for _ in range(3)]
    assert outcomes == [[("p0", Outcome.PLACED)], [("p1", Outcome.PLACED)], [("p2", Outcome.UNSCHEDULABLE)]]


def test_a_minimum_may_change_while_a_group_waits() -> None:
    engine = fleet(2, member("p0"), member("p1"), group=described(3))
    assert {outcome for _ in range(2) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    observe(engine, described(2, version=11))
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


@pytest.mark.parametrize("minimum", [0, 2])
def test_the_pods_of_a_group_with_a_topology_are_placed_near_each_other(minimum: int) -> None:
    near = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    engine = fleet(2, member("p0", 8000), member("p1", 8000), group=described(minimum, **near))
    assert "no node has label rack" in engine.schedule_next(0.0)[0].message
    for name, rack in (("a", "r1"), ("b", "r2"), ("c", "r2")):
        engine.observe_node(node(name, cards(name, 1), labels={"rack": rack}, version=2), 20.0)
    assert [outcome for _ in range(2 if minimum == 0 else 1) for _, outcome in attempt(engine, 20.0)] == [
        Outcome.PLACED
    ] * 2
    assert {held.node for held in engine.state.reservations()} == {"b", "c"}


@pytest.mark.parametrize("minimum", [0, 2])
def test_what_a_group_asks_for_and_is_not_followed_is_refused_by_name(minimum: int) -> None:
    field = "parentCompositePodGroupName"
    engine = fleet(2, member("p0"), member("p1"), group=described(minimum, **{field: "all"}))
    refused = f"{OLDER.name} default/team: spec.{field} is not supported, so none of its pods is placed"
    decisions = [*engine.schedule_next(0.0), *engine.schedule_next(0.0)]
    assert {(decision.outcome, decision.message) for decision in decisions} == {(Outcome.REFUSED, refused)}
    key = engine.groups.key_of("uid-p0")
    assert key is not None
    assert not engine.groups.status(key).schedules_as_gang
    assert said(engine) == [Condition("False", "Unschedulable", f"pod default/p1: {refused}")]
    observe(engine, described(minimum, version=11))
    assert attempt(engine, 20.0)[0] == ("p0", Outcome.PLACED)


# Whose turn it is ----------------------------------------------------------------------------------------------------


def test_the_priority_that_a_group_is_told_goes_before_that_of_its_pods() -> None:
    engine = fleet(3, member("p0", priority=1), member("p1", priority=1), group=described(2, priority=9))
    engine.observe_pod(pod("alone", priority=5), 0.0)
    assert [attempt(engine)[0][0] for _ in range(2)] == ["p0", "alone"]


def test_a_priority_that_is_told_later_counts_for_pods_that_wait_anywhere() -> None:
    engine = fleet(4, member("p0", priority=9), member("p1", priority=9), group=described(3))
    assert {outcome for _ in range(2) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    engine.observe_pod(pod("alone", priority=5), 20.0)
    observe(engine, described(2, version=11, priority=1))
    assert [attempt(engine, 20.0)[0][0] for _ in range(2)] == ["alone", "p0"]


@pytest.mark.parametrize("requeue", Requeue)
def test_a_pod_that_is_given_back_has_the_turn_that_its_group_has_then(requeue: Requeue) -> None:
    engine = fleet(3, member("p0", priority=1), member("p1", priority=1), group=described(2, priority=2))
    assert [name for name, _ in attempt(engine)] == ["p0", "p1"]
    observe(engine, described(2, version=11, priority=9))
    engine.observe_pod(pod("alone", priority=5), 0.0)
    for name in ("p0", "p1"):
        engine.unreserve(f"uid-{name}", 1.0, requeue)
    assert [attempt(engine, 20.0)[0][0] for _ in range(2)] == ["p0", "alone"]


# What objects say ----------------------------------------------------------------------------------------------------


def test_a_group_says_that_it_is_scheduled_when_as_many_are_bound_as_are_needed() -> None:
    engine = fleet(3, *(member(f"p{number}") for number in range(3)), group=described(2))
    assert attempt(engine) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]
    engine.binding_succeeded("uid-p0")
    assert said(engine) == []
    engine.binding_succeeded("uid-p1")
    [found] = engine.group_conditions.take()
    assert found.condition == Condition("True", "Scheduled", "2 pods bound, 2 needed")
    assert (found.kind.condition, found.group.uid) == ("PodGroupScheduled", "group")
    assert said(engine) == [], "each is told once"
    engine.group_conditions.not_written(found.key)
    assert said(engine) == [found.condition]
    observe(engine, described(2, version=11, condition=found.condition))
    attempt(engine)
    engine.binding_succeeded("uid-p2")
    assert said(engine) == [], "it says so already"


def test_a_group_says_which_of_its_pods_does_not_fit_and_why() -> None:
    engine = fleet(1, member("p0", 8000), member("p1", 8000), group=described(2))
    attempt(engine)
    room = "they have room for at most 1 of them: CardInsufficientMemory"
    why = f"pod default/p0: 0/1 nodes are available: group default/team needs 2 pods to be placed at once, and {room}."
    assert said(engine) == [Condition("False", "Unschedulable", why)]
    observe(engine, described(2, version=11, condition=Condition("False", "Unschedulable", why)))
    assert said(engine) == []
    engine.observe_node(node("a", cards("a", 2), version=2), 20.0)
    assert {outcome for _, outcome in attempt(engine, 20.0)} == {Outcome.PLACED}
    assert said(engine) == [], "they may be given back still"
    for name in ("p0", "p1"):
        engine.binding_succeeded(f"uid-{name}")
    assert [each.status for each in said(engine)] == ["True"]


def test_objects_of_others_are_told_nothing() -> None:
    """Neither where a group does not fit nor once it runs: coscheduling's PodGroups have no such condition."""
    engine = fleet(1)
    kind = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.x-k8s.io")
    metadata = {"name": "team", "namespace": "default", "uid": "other", "resourceVersion": "10"}
    engine.kinds[kind.name].observe(kind.decode({"metadata": metadata, "spec": {"minMember": 2}}), 0.0)
    for name in ("p0", "p1"):
        engine.observe_pod(pod(name, asks(1, 8000), labels={"scheduling.x-k8s.io/pod-group": "team"}), 0.0)
    assert {outcome for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}
    assert said(engine) == []
    engine.observe_node(node("a", cards("a", 2), version=2), 20.0)
    assert {outcome for _, outcome in attempt(engine, 20.0)} == {Outcome.PLACED}
    for name in ("p0", "p1"):
        engine.binding_succeeded(f"uid-{name}")
    assert said(engine) == []


def test_an_error_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fleet(1, member("p0"), group=described(1))

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engine.algorithm, "decide", fails)
    attempt(engine)
    [found] = said(engine)
    assert (found.status, found.reason) == ("False", "SchedulerError")
    assert "ZeroDivisionError" in found.message


def test_nothing_is_said_of_a_group_that_is_incomplete_or_was_scheduled_once() -> None:
    engine = fleet(1, member("p0", 8000), group=described(2))
    attempt(engine)
    assert said(engine) == []
    observe(engine, described(2, version=11, condition=Condition("True", "Scheduled", "")))
    engine.observe_pod(member("p1", 8000), 20.0)
    assert {outcome for _, outcome in attempt(engine, 20.0)} == {Outcome.UNSCHEDULABLE}
    assert said(engine) == []


@pytest.mark.parametrize("bound", [0, 1])
def test_a_basic_group_is_scheduled_with_its_first_pod(bound: int) -> None:
    pods = [member(f"p{number}", 8000, nodeName="a") for number in range(bound)]
    engine = fleet(0, *pods, member("fits-not", 8000), group=described(0))
    attempt(engine)
    [found] = said(engine)
    assert found.status == ("True" if bound else "False")


def test_a_new_leader_says_what_the_last_one_did_not() -> None:
    engine = fleet(2, *(member(f"p{number}", nodeName="a") for number in range(2)), group=described(2))
    assert [each.status for each in said(engine)] == ["True"]


def test_groups_of_other_schedulers_are_theirs_to_tell_of() -> None:
    pods = (member(f"p{number}", nodeName="a", scheduler="another") for number in range(2))
    engine = fleet(2, *pods, group=described(2))
    assert said(engine) == []


def test_an_object_that_is_gone_says_nothing() -> None:
    engine = fleet(2, *(member(f"p{number}", nodeName="a") for number in range(2)), group=described(2))
    engine.kinds[OLDER.name].remove(described(2), 11, 0.0)
    assert not engine.groups.changed, "a standby is never asked, and must not remember it for ever"
    assert said(engine) == []
