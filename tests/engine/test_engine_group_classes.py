"""Groups that would get the same answer: one is tried for all, and the next one once it was placed."""

from __future__ import annotations

import msgspec
import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_native_groups import OLDER, described
from tests.engine.test_engine_pod_groups import attempt, member
from tests.engine.test_engine_sweeps import swept

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod
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
    swept(engine, OLDER, objects, 10)
    for each in objects:
        for number in range(2):
            group = {"schedulingGroup": {"podGroupName": each.name}}
            engine.observe_pod(pod(f"{each.name}{number}", asks(1, 8000), **group), 0.0)
    assert len(rounds(engine, 0.0)) == 2
    engine.observe_node(node("b", cards("b", 1), labels={"rack": "x"}), 10.0)
    assert [sorted(each) for each in rounds(engine, 20.0)] == [["one0", "one1"]]
