"""Groups that Kubernetes' own PodGroups describe: how their pods are placed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_pod_groups import attempt
from tests.engine.test_engine_sweeps import swept

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
    swept(engine, OLDER, [group] if group else [], 10)
    return engine


def messages(engine: Engine, now: float = 0.0) -> set[str]:
    return {decision.message for decision in engine.attempt_group(now)}


def test_pods_wait_where_the_api_server_serves_no_such_object() -> None:
    engine = engine_with([node("a", cards("a", 1))], [member("p0")])
    waits = "which says how many pods the group needs, is of a kind that the API server does not serve."
    assert messages(engine) == {f"{NEWER.name} default/team, {waits}"}
    assert not engine.usage_warnings_of(member("p0"))
    swept(engine, OLDER, [described(1)], 20)
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


ASKED: dict[str, dict[str, Any]] = {
    "schedulingConstraints.topology": {"schedulingConstraints": {"topology": [{"key": "rack"}]}},
    "parentCompositePodGroupName": {"parentCompositePodGroupName": "all"},
}


@pytest.mark.parametrize("field", ASKED)
@pytest.mark.parametrize("minimum", [0, 2])
def test_what_a_group_asks_for_and_is_not_followed_is_refused_by_name(field: str, minimum: int) -> None:
    engine = fleet(2, member("p0"), member("p1"), group=described(minimum, **ASKED[field]))
    refused = f"{OLDER.name} default/team: spec.{field} is not supported, so none of its pods is placed"
    decisions = [*engine.attempt_group(0.0), *engine.attempt_group(0.0)]
    assert {(decision.outcome, decision.message) for decision in decisions} == {(Outcome.REFUSED, refused)}
    key = engine.groups.key_of("uid-p0")
    assert key is not None
    assert not engine.groups.standing(key).is_ready
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
