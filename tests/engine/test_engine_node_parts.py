"""How many shapes the engine remembers: as many as fit some memory, and no fewer than a floor on large clusters."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod

from vgpu_scheduler.engine import Engine, cycle
from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.recent import MOST


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods whose shape was computed for all nodes."""
    found: list[str] = []
    make = cycle.make_node_part
    monkeypatch.setattr(cycle, "make_node_part", lambda asking, *more: found.append(asking.name) or make(asking, *more))
    return found


def decide(engine: Engine, shapes: int) -> None:
    deciding: Cycle = engine.cycle
    for number in range(shapes):
        deciding.decide(pod(f"p{number}", asks(gpumem=100 + number)))


def test_a_small_cluster_remembers_all_shapes_of_a_workload(made: list[str]) -> None:
    engine = engine_with([node("a", cards("a", 2))])
    decide(engine, 300)
    decide(engine, 300)
    assert len(made) == 300


def test_a_large_cluster_remembers_a_floor(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "_BYTES_PER_NODE", 2**30)
    engine = engine_with([node("a", cards("a", 2))])
    decide(engine, 128)
    decide(engine, 128)
    assert len(made) == 128
    decide(engine, 129)
    decide(engine, 1)
    assert made[128:] == ["p128", "p0"]


def test_large_pods_that_come_and_go_leave_little_behind() -> None:
    large = 200_000
    engine = engine_with([node("a", cards("a", 2))])

    def decide_large(number: int) -> None:
        tolerations = [{"key": "x" * large + f"{number:04}", "operator": "Exists"}]
        engine.cycle.decide(pod("p", asks(gpumem=100), tolerations=tolerations))

    decide_large(9999)
    tracemalloc.start()
    try:
        for number in range(400):
            decide_large(number)
        assert tracemalloc.get_traced_memory()[0] < MOST + 30 * large
    finally:
        tracemalloc.stop()
