"""What nobody can give out more than: beside all ways to place a few pods, beside replays, and by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from benchmarks import packing_bound
from benchmarks.fgd import FgdPlacer
from benchmarks.packing_bound import most
from tests.naive import packing as naive
from tests.whatif.traces import random_nodes, random_pods

from vgpu_scheduler.whatif.traces import Fleet, TraceNode, TracePod, replay, static_run, typical_pods

SEEDS = pytest.mark.parametrize("seed", range(25))


def whole(cards: int, *models: str, cpu: int = 0) -> TracePod:
    return TracePod(cpu, 0, cards, 100, models)


def share(percent: int, *, cpu: int = 0) -> TracePod:
    return TracePod(cpu, 0, 1, percent)


def node(cards: int, model: str = "T4", cpu: int = 1000) -> TraceNode:
    return TraceNode("n", cpu, 10**6, (model,) * cards)


def ways(boxes: Sequence[naive.Box], pods: Sequence[TracePod], used: int) -> Iterator[tuple[int, bool]]:
    """Yield what each way to place pods, or not to, gives out, and whether it places all."""
    if not pods:
        yield used, True
        return
    pod, *others = pods
    for more, _ in ways(boxes, others, used):
        yield more, False
    for box in boxes:
        if naive.fits(box, pod):
            for cards in combinations(naive.usable(box, pod), pod.cards):
                naive.book(box, pod, cards, 1)
                yield from ways(boxes, others, used + pod.demand)
                naive.book(box, pod, cards, -1)


@SEEDS
def test_no_way_to_place_pods_gives_out_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, pods = random_nodes(rng, 2), random_pods(rng, 5)
    capacity = Fleet(nodes).capacity
    found = list(ways(naive.empty(nodes), pods, 0))
    assert 100 * max(used for used, _ in found) / capacity <= most(nodes, pods) + 1e-6
    if any(every for _, every in found):
        demand = sum(pod.demand for pod in pods)
        assert 100 * demand / capacity <= most(nodes, pods, pods) + 1e-6


@SEEDS
def test_no_replay_gives_out_more_and_who_has_to_be_placed_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods = random_pods(rng, 40)
    run = static_run(Fleet(random_nodes(rng, 8)), pods, seed)
    locations = replay(run.arrivals, FgdPlacer(run.fleet, typical_pods(pods)))
    used = sum(pod.demand for pod, location in zip(run.arrivals.pods, locations, strict=True) if location is not None)
    before = next((number for number, location in enumerate(locations) if location is None), len(locations))
    bound = most(run.fleet.nodes, run.arrivals.pods)
    so_far = most(run.fleet.nodes, run.arrivals.pods, run.arrivals.pods[:before])
    assert 100 * used / run.fleet.capacity <= so_far + 1e-6
    assert so_far <= bound + 1e-2
    assert bound <= 100


@SEEDS
def test_what_is_proved_is_what_the_program_reaches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    nodes, pods = random_nodes(rng, 8), random_pods(rng, 60)
    programs: list[packing_bound._Program] = []
    solve = packing_bound._Program.solve

    def kept(program: packing_bound._Program, near: float) -> float:
        programs.append(program)
        return solve(program, near)

    monkeypatch.setattr(packing_bound._Program, "solve", kept)
    bound = most(nodes, pods)
    (program,) = programs
    reached = 100 * float(program._gains @ program._reached) / Fleet(nodes).capacity
    assert min(reached, 100) == pytest.approx(bound, abs=0.02)


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        ([node(2)], [share(60)] * 9, 60.0),
        ([node(2)], [*[share(60)] * 9, share(40)], 80.0),
        ([node(2)], [*[share(60)] * 9, whole(1)], 80.0),
        ([node(1), node(1)], [whole(2)], 0.0),
        ([node(1), node(2)], [whole(2)] * 5, 200 / 3),
        ([node(1), node(1, "A10")], [whole(1, "T4")] * 2, 50.0),
        ([node(1), node(1, "A10")], [whole(1, "A10", "T4")] * 2, 100.0),
        ([node(2, cpu=1000)], [whole(1, cpu=1000)] * 2, 50.0),
        ([node(2, cpu=1000), node(2, cpu=1000)], [whole(1, cpu=500)] * 4, 100.0),
        ([node(2)], [share(50)], 25.0),
        ([node(2)], [TracePod(0, 0, 2, 50)] * 9, 100.0),
        ([node(8)], [whole(8), whole(4), whole(4)], 100.0),
    ],
)
def test_bounds_by_hand(nodes: list[TraceNode], pods: list[TracePod], expected: float) -> None:
    assert most(nodes, pods) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("must", "expected"), [([], 100.0), ([share(60)], 80.0), ([share(60), share(60)], 60.0), ([TracePod(1000, 0)], 0.0)]
)
def test_who_has_to_be_placed_takes_room(must: list[TracePod], expected: float) -> None:
    assert most([node(2)], [*[whole(1, cpu=500)] * 2, *must], must) == pytest.approx(expected, abs=0.02)
