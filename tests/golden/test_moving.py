"""Running fleets of Volcano and Koordinator are taken over, get more pods, and are given back, with equal books."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.golden.moving import Fleet, Happened, KoordinatorFleet, Obj, VolcanoFleet, may_move, some
from tests.golden.outcome import Case
from tests.golden.runner import read
from tests.naive.hami_quirks import NONE
from tests.naive.koordinator_quirks import KOORDINATOR
from tests.naive.volcano_quirks import VOLCANO
from tests.seeds import seeds

VECTORS = Path(__file__).parents[1] / "vectors"
NODES = 6


@cache
def sequences(*, mig: bool) -> list[Case]:
    cases = read(VECTORS / "volcano" / "volcano_vgpu_seq.jsonl.gz")
    return [case for case in cases if ("mig" in case["tags"]) is mig]


@cache
def allocations() -> list[Case]:
    return [case for case in read(VECTORS / "koordinator" / "koordinator_alloc.jsonl.gz") if may_move(case)]


def volcano_fleet(seed: int) -> Fleet:
    """Return a fleet of Volcano's; every third one has cards in MIG mode."""
    return Fleet(VolcanoFleet(some(sequences(mig=seed % 3 == 2), NODES, seed)))


def koordinator_fleet(seed: int) -> Fleet:
    return Fleet(KoordinatorFleet(some(allocations(), NODES, seed)))


AMOUNTS = ("usedNum", "usedMem", "usedCore")
FLEETS = pytest.mark.parametrize("make", [volcano_fleet, koordinator_fleet])
THEIRS = VOLCANO | KOORDINATOR


def taken_over(make: Callable[[int], Fleet], seed: int) -> Fleet:
    """Return a fleet with what the real scheduler left behind."""
    fleet = make(seed)
    for happened in fleet.ecosystem.happened():
        fleet.follow(happened)
    return fleet


@FLEETS
@pytest.mark.parametrize("seed", seeds(often=3, every=30))
def test_a_running_fleet_is_taken_over_and_given_back_with_equal_books(make: Callable[[int], Fleet], seed: int) -> None:
    rng, fleet = np.random.default_rng(seed), make(seed)
    for happened in fleet.ecosystem.happened():
        fleet.follow(happened)
        agree(fleet, "while the real scheduler works")
    found = len(fleet.pods)
    assert found
    wanted = [*fleet.ecosystem.wanted()]
    placed = [fleet.place(wanted[each % len(wanted)], n) for n, each in enumerate(rng.permutation(2 * len(wanted)))]
    assert any(placed)
    agree(fleet, "with more pods")
    assert_read_back(fleet)
    for uid in rng.permutation(sorted(fleet.pods)):
        fleet.end(str(uid))
        agree(fleet, f"without {uid}")
    assert not any(used for devices in fleet.kept().values() for used in map(in_use, devices))


def agree(fleet: Fleet, when: str) -> None:
    """Hold the books against the annotations alone, as the twin reads them and as a leader reads them that starts."""
    kept = fleet.kept()
    assert kept == fleet.read(NONE), when
    assert kept == fleet.ecosystem.kept(fleet.restarted()), when


def assert_read_back(fleet: Fleet) -> None:
    """The real code reads the same of the annotations, but for what the pages say."""
    kept, theirs = fleet.kept(), fleet.read(THEIRS)
    same = {node for node in kept if kept[node] == theirs[node]}
    odd = {pod["spec"]["nodeName"] for pod in fleet.pods.values() if fleet.ecosystem.is_read_otherwise(pod)}
    assert kept.keys() - odd <= same
    assert kept == fleet.read(THEIRS - fleet.ecosystem.read_otherwise)


def in_use(device: Obj) -> bool:
    return any(device.get(key) for key in ("used", "usedNum", "usedMem", "usedCore", "pods"))


def watched(cases: list[Case]) -> Iterator[tuple[Fleet, Happened]]:
    """Yield each thing that happened in small fleets of all cases, when it was seen."""
    for start in range(0, len(cases), NODES):
        fleet = Fleet(VolcanoFleet(cases[start : start + NODES]))
        for happened in fleet.ecosystem.happened():
            fleet.follow(happened)
            yield fleet, happened


def test_while_volcano_works_its_live_ledger_has_the_pods_that_ours_has() -> None:
    """It leaks shares of pods that are gone, and of claims of no card; the pods of each card are the same."""
    compared = equal = 0
    for fleet, happened in watched(sequences(mig=False)):
        if any(map(fleet.ecosystem.is_read_otherwise, fleet.on(happened.node))):
            continue
        ours, theirs = fleet.kept()[happened.node], happened.ledger
        assert theirs is not None
        assert [card["pods"] for card in ours] == [card["pods"] for card in theirs]
        assert all(mine[key] <= card[key] for mine, card in zip(ours, theirs, strict=True) for key in AMOUNTS)
        compared, equal = compared + 1, equal + (ours == theirs)
    assert (compared, equal) == (141, 114)


@pytest.mark.parametrize("seed", seeds(often=2, every=20))
def test_volcano_places_again_on_what_it_reads_of_a_fleet_that_was_given_back(seed: int) -> None:
    fleet = taken_over(volcano_fleet, seed)
    ecosystem = fleet.ecosystem
    assert isinstance(ecosystem, VolcanoFleet)
    for number, wire in enumerate(ecosystem.wanted()):
        fleet.place(wire, number)
    before = len(fleet.pods)
    for node, pod in ecosystem.placed_again(fleet):
        fleet.observe(pod)
        agree(fleet, f"with a pod of Volcano's on {node}")
    assert len(fleet.pods) > before


def test_the_pages_say_what_is_read_otherwise() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert "counts the first of them only" in " ".join((docs / "coming-from-volcano.md").read_text().split())
    assert "asks for no device" in " ".join((docs / "coming-from-koordinator.md").read_text().split())
