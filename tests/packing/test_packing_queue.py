"""Pods that wait for room: served as a plain twin serves them, audited, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import packing_queue
from benchmarks.fgd import FgdPlacer
from benchmarks.packing import PackingError, placer_of
from benchmarks.packing_serving import NEVER, SIZES, Demand, Stay, Waits, assess, serve
from tests.whatif.traces import random_nodes, random_pods

from vgpu_scheduler.cli.traces.reading import Trace
from vgpu_scheduler.whatif.traces import (
    LIFETIMES,
    AuditError,
    CardLocation,
    Fleet,
    Placer,
    TraceNode,
    TracePod,
    churning_run,
    replay,
    typical_pods,
)

CARD = TracePod(1000, 1024, 1, 100)
HALF = TracePod(1000, 1024, 1, 50)
FLEET = Fleet([TraceNode("n", 8000, 16384, ("T4",))])
SPOT = CardLocation(0, (0,))


def crowded(seed: int, load: float = 2.0) -> tuple[Demand, Sequence[TracePod]]:
    rng = np.random.default_rng(seed)
    pods = random_pods(rng, 25)
    return Demand.of(churning_run(Fleet(random_nodes(rng, 6)), pods, seed, load)), pods


def plainly(demand: Demand, placer: Placer) -> list[Stay]:
    """Try each pod that waits again, one by one, whenever one leaves."""
    waiting: list[int] = []
    there: list[Stay] = []
    gone: list[Stay] = []
    attempts: list[int] = []
    known: dict[int, int] = {}

    def try_all(now: float) -> None:
        for number in list(waiting):
            attempts.append(number)
            location = placer.place(len(attempts), demand.pods[number])
            if location is not None:
                known[number] = len(attempts)
                waiting.remove(number)
                there.append(Stay(number, location, now, now + demand.lasting[number]))

    def leave_until(time: float) -> None:
        while there:
            first = min(there, key=lambda stay: stay.end)
            if first.end > time or first.end >= LIFETIMES:
                return
            there.remove(first)
            gone.append(first)
            placer.remove(known[first.number])
            try_all(first.end)

    for number, come in enumerate(demand.come):
        leave_until(come)
        waiting.append(number)
        try_all(come)
    leave_until(LIFETIMES)
    staying = [replace(stay, end=NEVER) for stay in there]
    return sorted([*gone, *staying], key=lambda stay: (stay.start, stay.number))


@pytest.mark.parametrize(
    ("seed", "policy"), [*((seed, "fgd") for seed in range(12)), (3, "hami-binpack"), (4, "fragmentation")]
)
def test_pods_are_served_as_the_twin_serves_them(seed: int, policy: str) -> None:
    demand, pods = crowded(seed)
    mix = typical_pods(pods)
    found = serve(demand, placer_of(policy, demand.fleet, mix))
    assert found == plainly(demand, placer_of(policy, demand.fleet, mix))
    assert any(stay.start > demand.come[stay.number] for stay in found)  # somebody has waited
    service = assess(demand, found)
    assert (service.moved, service.evicted) == (0, 0)
    assert 0 < service.allocation <= 100


@pytest.mark.parametrize("seed", range(4))
def test_who_never_has_to_wait_is_where_the_replay_without_a_queue_has_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods = [replace(pod, cpu=0, memory=0, models=()) for pod in random_pods(rng, 25) if pod.cards == 1]
    run = churning_run(Fleet([replace(node, models=("T4",) * 16) for node in random_nodes(rng, 6)]), pods, seed, 0.1)
    demand, mix = Demand.of(run), typical_pods(pods)
    locations = replay(run.arrivals, FgdPlacer(run.fleet, mix))
    stays = serve(demand, FgdPlacer(run.fleet, mix))
    assert [stay.location for stay in stays] == locations
    assert [stay.start for stay in stays] == list(demand.come)
    assert all(set(waits.times) <= {0.0} for waits in assess(demand, stays).waits.values())
    leaving = sum(step < 0 for step in run.arrivals.steps)
    assert sum(stay.end < LIFETIMES for stay in stays) == leaving


def test_who_does_not_fit_waits_and_whoever_fits_goes_first() -> None:
    """A card holds a half, then a half that came after a card; the card waits until both are gone."""
    demand = Demand(FLEET, [HALF, CARD, HALF, CARD], [0.0, 0.5, 1.0, 2.0], [3.0, 1.0, 3.0, NEVER])
    stays = serve(demand, FgdPlacer(FLEET, typical_pods(demand.pods)), until=6.0)
    assert [(stay.number, stay.start, stay.end) for stay in stays] == [
        (0, 0.0, 3.0),
        (2, 1.0, 4.0),
        (1, 4.0, 5.0),
        (3, 5.0, NEVER),
    ]
    service = assess(demand, stays, warm_up=0.0, until=6.0)
    assert service.waits["one card"] == Waits([3.5, 3.0], 0)
    assert service.waits["less than a card"] == Waits([0.0, 0.0], 0)
    assert service.waits["2 to 4"].times == []
    assert service.allocation == pytest.approx(100 * (1 * 0.5 + 2 * 1.0 + 1 * 0.5 + 2 * 1.0) / 6)
    late = assess(demand, stays, warm_up=2.0, until=6.0)
    assert late.waits["one card"] == Waits([3.0], 0)
    assert late.allocation == pytest.approx(100 * (1 + 0.5 + 1 + 1) / 4)


def test_who_is_never_placed_waits_until_the_end() -> None:
    demand = Demand(FLEET, [CARD, CARD], [0.0, 1.0], [NEVER, NEVER])
    stays = serve(demand, FgdPlacer(FLEET, typical_pods(demand.pods)), until=5.0)
    assert assess(demand, stays, warm_up=0.0, until=5.0).waits["one card"] == Waits([0.0, 4.0], 1)


def test_nodes_are_free_as_long_as_nobody_uses_them() -> None:
    eight = TraceNode("eight", 8000, 16384, ("T4",) * 8)
    fleet = Fleet([eight, *FLEET.nodes])
    demand = Demand(fleet, [CARD, CARD], [0.0, 1.0], [2.0, NEVER])
    stays = [Stay(0, CardLocation(0, (3,)), 0.0, 2.0), Stay(1, CardLocation(1, (0,)), 1.0, NEVER)]
    assert assess(demand, stays, warm_up=0.0, until=4.0).free_nodes == pytest.approx(((1 + 0 + 2) / 4, 2 / 4))


def test_pods_that_are_moved_or_evicted_are_counted() -> None:
    fleet = Fleet([*FLEET.nodes, *FLEET.nodes])
    other = CardLocation(1, (0,))
    demand = Demand(fleet, [CARD], [0.0], [4.0])
    whole, moved = [Stay(0, SPOT, 0.0, 4.0)], [Stay(0, SPOT, 0.0, 1.0), Stay(0, other, 1.0, NEVER)]
    counted = [assess(demand, stays, warm_up=0.0, until=5.0) for stays in (whole, moved)]
    assert [(found.moved, found.evicted) for found in counted] == [(0, 0), (1, 1)]


def test_what_cannot_be_is_told() -> None:
    demand = Demand(FLEET, [CARD, CARD], [0.0, 1.0], [2.0, 1.0])
    late = [Stay(0, SPOT, 0.0, 2.0), Stay(1, SPOT, 2.5, 3.5)]
    with pytest.raises(PackingError, match="waited although node 0 had room"):
        assess(demand, late, warm_up=0.0)
    with pytest.raises(PackingError, match="pods waited that had room"):
        assess(demand, late[1:], warm_up=0.0)
    with pytest.raises(PackingError, match="pod 1 was placed before it came"):
        assess(demand, [Stay(0, SPOT, 0.0, 0.5), Stay(1, SPOT, 0.7, 1.7)], warm_up=0.0)
    with pytest.raises(AuditError, match="more percent of card 0 than there is"):
        assess(demand, [Stay(0, SPOT, 0.0, 2.0), Stay(1, SPOT, 1.0, 2.0)], warm_up=0.0)


def test_a_policy_that_keeps_pods_away_is_told() -> None:
    class Shy:
        def __init__(self) -> None:
            self._placed = False

        def place(self, number: int, pod: TracePod) -> CardLocation | None:
            self._placed = not self._placed
            return SPOT if self._placed else None

        def remove(self, number: int) -> None:
            self._placed = True

    demand = Demand(FLEET, [CARD, CARD], [0.0, 1.0], [2.0, 1.0])
    with pytest.raises(PackingError, match="waits although node 0 has room"):
        serve(demand, Shy())


def test_percentiles_are_waiting_times_that_there_were() -> None:
    waits = Waits([float(number) for number in range(100)], 0)
    assert (waits.mean, waits.p95) == (49.5, 95.0)
    assert (Waits([], 0).mean, Waits([], 0).p95) == (0.0, 0.0)


def test_each_pod_has_one_size() -> None:
    sizes = [TracePod(1, 1), HALF, CARD, *(TracePod(1, 1, cards, 100) for cards in (2, 4, 5, 8))]
    assert [[name for name, belongs in SIZES.items() if belongs(pod)] for pod in sizes] == [
        [name] for name in ("no card", "less than a card", "one card", "2 to 4", "2 to 4", "more", "more")
    ]


def test_the_table_has_every_policy_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    trace = Trace(random_nodes(rng, 8), {"one": random_pods(rng, 30), "other": random_pods(rng, 30)})
    found = packing_queue.compare(trace, range(2), 1.2, lambda _: None)
    measured = packing_queue.text(found)
    policies = len(packing_queue.POLICIES)
    assert len(found) == 2 * policies
    assert measured.count("| one | ") == measured.count("| other | ") == policies + 1
    assert "at load 1.2; seeds 0 to 1." in measured
    first = found[0]
    times = [time for service in first.services for time in service.waits["one card"].times]
    assert f"{len(times):,} |" in measured
    assert f"{100 * sum(times) / len(times):.1f} / " in measured
    assert f"| {first.allocation:.2f} |" in measured
    counts = {tuple(len(one.waits(size).times) for size in SIZES) for one in found[:policies]}
    assert len(counts) == 1  # the same arrivals for each
    page = tmp_path / "page.md"
    page.write_text(f"{packing_queue.MARK}\nold\n{packing_queue.MARK}\n")
    monkeypatch.setattr("benchmarks.page.TARGET", page)
    packing_queue.write_between(packing_queue.MARK, measured)
    assert page.read_text().count(measured) == 1
