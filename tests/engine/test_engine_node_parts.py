"""How many classes the engine remembers: as many as fit some memory, and no fewer than a floor on large clusters."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine, node_parts
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods whose class was computed for all nodes."""
    found: list[str] = []
    make = node_parts.make_node_part
    monkeypatch.setattr(
        node_parts, "make_node_part", lambda asking, *more: found.append(asking.name) or make(asking, *more)
    )
    return found


def decide(engine: Engine, classes: int) -> None:
    deciding: SchedulingAlgorithm = engine.algorithm
    for number in range(classes):
        deciding.decide(pod(f"p{number}", asks(gpumem=100 + number)))


def test_a_small_cluster_remembers_all_shapes_of_a_workload(made: list[str]) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    decide(engine, 300)
    decide(engine, 300)
    assert len(made) == 300


def test_where_there_is_little_room_some_shapes_are_computed_anew(
    made: list[str], fitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_parts, "_BYTES_PER_NODE", 2**30)
    engine = engine_with([node("a", cards("a", 2))])
    decide(engine, 32)
    decide(engine, 32)
    assert sum(fitted) == 32, "a floor is kept however large the cluster is"
    fitted.clear()
    for _ in range(10):
        decide(engine, 36)
    assert sum(fitted) < 180, "more than there is room for take turns, and half of them find what they had learnt"
    assert len(made) == 36, "what pods ask is not compiled anew"


def test_large_pods_that_come_and_go_leave_little_behind() -> None:
    large = 200_000
    engine = engine_with([node("a", cards("a", 2))])

    def decide_large(number: int) -> None:
        tolerations = [{"key": "x" * large + f"{number:04}", "operator": "Exists"}]
        engine.algorithm.decide(pod("p", asks(gpumem=100), tolerations=tolerations))

    decide_large(9999)
    tracemalloc.start()
    try:
        for number in range(400):
            decide_large(number)
        assert tracemalloc.get_traced_memory()[0] < node_parts._PARTS_BYTES + 30 * large
    finally:
        tracemalloc.stop()
