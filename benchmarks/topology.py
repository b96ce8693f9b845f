"""What it costs to choose cards by their links: one node, the kernel alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import choose_linked, link_scratch
from vgpu_scheduler.model import Device
from vgpu_scheduler.state import DeviceMatrix

ROUNDS = 20

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Search:
    """The number of cards for which the choice took longest, and how long.

    Attributes
    ----------
    what
        Candidates and links.
    wanted
        How many cards were chosen.
    worst
        Milliseconds, the least of some rounds.
    exact
        Whether every choice was known to be the best.
    """

    what: str
    wanted: int
    worst: float
    exact: bool


def tables(cards: int) -> Mapping[str, Table]:
    """Return pair scores of this many cards: all alike, in two groups, in pairs, and at random."""
    group = np.arange(cards)
    halves = np.where((group[:, None] < cards // 2) == (group[None, :] < cards // 2), 600, 20)
    pairs = np.where(group[:, None] // 2 == group[None, :] // 2, 600, 20)
    chance = np.random.default_rng(1).integers(0, 1000, size=(cards, cards))
    return {
        "all alike": np.full((cards, cards), 300),
        "two groups": halves,
        "pairs": pairs,
        "at random": np.triu(chance) + np.triu(chance, 1).T,
    }


def slowest(table: Table, walk: Sequence[int], what: str) -> Search:
    """Choose every number of cards among these candidates; return the slowest."""
    matrix = DeviceMatrix(3)
    names = [f"card-{number}" for number in range(len(table))]
    rows = [tuple(zip(names, scores.tolist(), strict=True)) for scores in table]
    matrix.replace(0, [Device(name, "V", "T", (1,), links=row) for name, row in zip(names, rows, strict=True)])
    columns, candidates = matrix.columns, np.array(walk, dtype=np.int64)
    found, sure = Search(what, 0, 0.0, True), True
    for wanted in range(1, len(walk)):
        work, best, exact = link_scratch(len(table), len(walk)), np.inf, True
        for _ in range(ROUNDS if wanted > 1 else 2 * ROUNDS):
            picks = candidates.copy()
            began = time.perf_counter()
            exact = bool(choose_linked(columns, 0, picks, len(walk), wanted, work))
            best = min(best, time.perf_counter() - began)
        sure = sure and exact
        if best * 1e3 > found.worst:
            found = Search(what, wanted, best * 1e3, sure)
    return Search(found.what, found.wanted, found.worst, sure)


def measure() -> Iterator[Search]:
    """Measure 16 whole cards, and the 56 placements of 8 MIG cards."""
    for name, table in tables(16).items():
        yield slowest(table, range(16), f"16 cards, {name}")
    placements = [card for card in range(8) for _ in range(7)]
    for name, table in tables(8).items():
        yield slowest(table, placements, f"56 placements on 8 cards, {name}")
