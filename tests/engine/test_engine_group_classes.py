"""Groups that would get the same answer: one is tried for all, and the next one once it was placed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.engine.builders import asks, cards, engine_with, in_group, node, pod
from tests.engine.preemption_fleet import Fleet
from tests.engine.test_engine_native_groups import OLDER, described
from tests.engine.test_engine_pod_groups import attempt, member
from tests.engine.test_engine_preemption import budget
from tests.engine.test_engine_relist import relisted
from tests.engine.volume_builders import CLAIM, CLASS, take, using
from tests.kube.storage_objects import claim, storage_class

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import Outcome


def rounds(engine: Engine, now: float) -> list[dict[str, Outcome]]:
    """Attempt all that is to be attempted; return what became of whom, attempt by attempt."""
    found = iter(lambda: dict(attempt(engine, now)), {})
    return list(found)


def full(*groups: Pod) -> Engine:
    """Return an engine with two cards that a pod has, and groups that fit nowhere."""
    engine = engine_with([node("a", cards("a", 2))])
    engine.observe_pod(pod("before", asks(2, 8000)), 0.0)
    assert rounds(engine, 0.0) == [{"before": Outcome.PLACED}]
    for each in groups:
        engine.observe_pod(each, 0.0)
    assert {outcome for each in rounds(engine, 0.0) for outcome in each.values()} == {Outcome.UNSCHEDULABLE}
    return engine


def test_one_group_is_tried_for_all_that_ask_the_same() -> None:
    engine = full(*(member(f"{group}{n}", f"{group}/2", 8000) for group in "xyz" for n in range(2)))
    engine.remove_pod("uid-before", 10.0)
    placed, waiting = Outcome.PLACED, Outcome.UNSCHEDULABLE
    assert rounds(engine, 20.0) == [{"x0": placed, "x1": placed}, {"y0": waiting, "y1": waiting}]
    engine.observe_node(node("b", cards("b", 1)), 30.0)
    assert rounds(engine, 40.0) == [{"y0": waiting, "y1": waiting}]
    engine.observe_node(node("c", cards("c", 4)), 50.0)
    assert rounds(engine, 70.0) == [{"y0": placed, "y1": placed}, {"z0": placed, "z1": placed}]


@pytest.mark.parametrize(
    "other",
    [
        [member("y0", "y/2", 7000), member("y1", "y/2", 8000)],
        [member(f"y{n}", "y/2", 8000) for n in range(3)],
        [member(f"y{n}", "y/2", 8000, priority=1) for n in range(2)],
    ],
    ids=["another amount", "more pods", "another priority"],
)
def test_groups_that_do_not_ask_the_same_are_each_tried(other: list[Pod]) -> None:
    engine = full(*(member(f"x{n}", "x/2", 8000) for n in range(2)), *other)
    engine.observe_node(node("b", cards("b", 1)), 10.0)
    assert len(rounds(engine, 20.0)) == 2


def test_groups_whose_objects_ask_for_the_same_nearness_are_tried_as_one() -> None:
    engine = engine_with([node("a", cards("a", 2), labels={"rack": "x"})], [pod("before", asks(2, 8000))])
    rounds(engine, 0.0)
    near = {"topology": [{"key": "rack"}]}
    objects = [
        msgspec.structs.replace(described(2, schedulingConstraints=near), name=name, uid=name)
        for name in ("one", "two")
    ]
    relisted(engine, OLDER, objects, 10)
    for each in objects:
        for number in range(2):
            group = {"schedulingGroup": {"podGroupName": each.name}}
            engine.observe_pod(pod(f"{each.name}{number}", asks(1, 8000), **group), 0.0)
    assert len(rounds(engine, 0.0)) == 2
    engine.observe_node(node("b", cards("b", 1), labels={"rack": "x"}), 10.0)
    assert [sorted(each) for each in rounds(engine, 20.0)] == [["one0", "one1"]]


def hindered() -> dict[str, tuple[list[Pod], list[Pod]]]:
    """Return groups whose pods hinder each other where the pods of the other group do not."""
    apart = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "name"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    large = {"note": "n" * 262_000}

    def group(name: str, **more: Any) -> list[Pod]:
        notes = in_group(name, 2) | more.pop("notes", {})
        return [pod(f"{name}{number}", asks(1, 8000), annotations=notes, **more) for number in range(2)]

    return {
        "a quota that only both exceed": (group("x", namespace="poor"), group("y", namespace="rich")),
        "anti-affinity": (
            group("x", labels={"app": "x"}, affinity=affinity),
            group("y", labels={"app": "y"}, affinity=affinity),
        ),
        "annotations that are too large": (group("x", notes=large), group("y")),
    }


@pytest.mark.parametrize("what", hindered())
def test_a_group_whose_pods_hinder_each_other_is_not_tried_for_others(what: str) -> None:
    engine = engine_with([node("a", cards("a", 2), labels={"name": "a"})])
    engine.quota_limits.observe(ResourceQuota("poor", "q", {"limits.nvidia.com/gpumem": "12000"}))
    engine.observe_pod(pod("before", asks(2, 8000)), 0.0)
    rounds(engine, 0.0)
    for each in (first for group in hindered()[what] for first in group):
        engine.observe_pod(each, 0.0)
    rounds(engine, 0.0)
    engine.remove_pod("uid-before", 10.0)
    found = {name: outcome for each in rounds(engine, 20.0) for name, outcome in each.items()}
    assert (found["y0"], found["y1"]) == (Outcome.PLACED, Outcome.PLACED)
    assert engine.state.reservation("uid-x0") is None


def test_groups_that_share_a_claim_are_not_tried_for_those_that_do_not() -> None:
    engine = engine_with([node(name, cards(name, 1), labels={"host": name}) for name in "ab"])
    take(engine, CLASS, storage_class("made"))
    take(engine, CLAIM, *(claim(name, "default", storage_class="made") for name in ("shared", "own0", "own1")))
    for name in "ab":
        engine.observe_pod(pod(f"before-{name}", asks(1, 8000)), 0.0)
    rounds(engine, 0.0)
    for name, claimed in (("x0", "shared"), ("x1", "shared"), ("y0", "own0"), ("y1", "own1")):
        engine.observe_pod(pod(name, asks(1, 8000), annotations=in_group(name[0], 2), **using(claimed)), 0.0)
    rounds(engine, 0.0)
    for name in "ab":
        engine.remove_pod(f"uid-before-{name}", 10.0)
    assert {name for each in rounds(engine, 20.0) for name in each} >= {"x0", "y0"}


@pytest.mark.parametrize("size", [1, 2])
def test_who_may_not_preempt_is_not_tried_for_those_who_may(size: int) -> None:
    fleet = Fleet([node(name, cards(name, 1)) for name in ("a", "b")[:size]])
    for number in range(size):
        fleet.come(f"low{number}", 0, asks(1, 8000), labels={"app": "low"})
    fleet.decide()
    kind, protects = fleet.engine.kinds["PodDisruptionBudget"], budget("low", 0)
    kind.observe(protects, 0.0)
    for name, more in (("x", {"preemptionPolicy": "Never"}), ("y", {})):
        for number in range(size):
            notes = in_group(name, size) if size > 1 else {}
            fleet.come(f"{name}{number}", 9, asks(1, 8000), annotations=notes, **more)
    fleet.decide()
    fleet.now = 20.0
    kind.observe(msgspec.structs.replace(protects, allowed=2, resource_version=2), fleet.now)
    fleet.decide()
    assert fleet.last["y0"].preemption is not None
    assert fleet.last["x0"].preemption is None
