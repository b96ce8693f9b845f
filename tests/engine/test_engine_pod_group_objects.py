"""Pods whose group an object describes."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_pod_groups import attempt
from tests.engine.test_engine_relist import relisted

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import POD_GROUPS
from vgpu_scheduler.kube import Pod, PodGroup
from vgpu_scheduler.model import Outcome

LABEL = "scheduling.x-k8s.io/pod-group"
KIND = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.x-k8s.io")


def pod_group(minimum: int, version: int = 10, name: str = "team") -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}", "resourceVersion": str(version)}
    return KIND.decode({"metadata": metadata, "spec": {"minMember": minimum}})


def named(name: str, **more: Any) -> Pod:
    return pod(name, asks(1, 1000), labels={LABEL: "team"}, **more)


def observe_group(engine: Engine, group: PodGroup) -> None:
    engine.kinds[KIND.name].observe(group, 0.0)


def test_pods_wait_for_the_object_that_they_name() -> None:
    engine = engine_with([node("a", cards("a", 2))], [named("p0"), named("p1")])
    relisted(engine, KIND, [], 5)
    [decision] = engine.schedule_next(0.0)
    kind = "PodGroup.scheduling.x-k8s.io"
    assert decision.message == f"{kind} default/team, which says how many pods the group needs, does not exist."
    assert attempt(engine) == [("p1", Outcome.UNSCHEDULABLE)]
    observe_group(engine, pod_group(3))
    assert attempt(engine, 20.0) == [("p0", Outcome.UNSCHEDULABLE)]
    assert attempt(engine, 20.0) == [("p1", Outcome.UNSCHEDULABLE)]
    observe_group(engine, pod_group(2, version=11))
    assert attempt(engine, 40.0) == [("p0", Outcome.PLACED), ("p1", Outcome.PLACED)]


def test_pods_of_a_group_whose_object_goes_wait_again() -> None:
    engine = engine_with([node("a", cards("a", 1, memory=500))], [named("p0"), named("p1")])
    relisted(engine, KIND, [pod_group(2)], 20)
    assert attempt(engine) == [("p0", Outcome.UNSCHEDULABLE), ("p1", Outcome.UNSCHEDULABLE)]
    relisted(engine, KIND, [], 30)
    [decision] = engine.schedule_next(20.0)
    assert "does not exist" in decision.message


def test_a_label_is_only_a_label_where_nobody_serves_the_object() -> None:
    engine = engine_with([node("a", cards("a", 1))], [named("p0")])
    assert attempt(engine) == [("p0", Outcome.PLACED)]


def test_pods_wait_for_an_object_that_cannot_be_read() -> None:
    engine = engine_with([node("a", cards("a", 1))], [named("p0"), pod("other")])
    for kind in POD_GROUPS:
        engine.groups.cannot_list(kind.name)
    engine.groups.cannot_list("StorageClass")
    [decision] = engine.schedule_next(0.0)
    assert decision.message == f"{KIND.name} default/team, which says how many pods the group needs, cannot be read."
    assert attempt(engine) == [("other", Outcome.PLACED)]
    relisted(engine, KIND, [pod_group(1)], 20)
    assert attempt(engine, 20.0) == [("p0", Outcome.PLACED)]


def test_what_pods_say_comes_before_what_the_object_says() -> None:
    before = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.sigs.k8s.io")
    label = "pod-group.scheduling.sigs.k8s.io"
    labels = {label: "team", f"{label}/min-available": "3"}
    pods = [pod(f"p{number}", asks(1, 1000), labels=labels) for number in range(2)]
    engine = engine_with([node("a", cards("a", 2))], pods)
    relisted(engine, before, [before.decode({"metadata": {"name": "team"}, "spec": {"minMember": 1}})], 5)
    assert {outcome for _ in range(2) for _, outcome in attempt(engine)} == {Outcome.UNSCHEDULABLE}


def test_a_member_that_cannot_be_understood_says_nothing_of_what_is_needed() -> None:
    before = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.sigs.k8s.io")
    label = "pod-group.scheduling.sigs.k8s.io"
    odd = pod("odd", asks(1, 1000), labels={label: "team", f"{label}/min-available": "two"})
    engine = engine_with([node("a", cards("a", 2))], [odd, pod("p0", asks(1, 1000), labels={label: "team"})])
    relisted(engine, before, [], 5)
    assert attempt(engine) == [("odd", Outcome.REFUSED)]
    [decision] = engine.schedule_next(0.0)
    assert "does not exist" in decision.message
