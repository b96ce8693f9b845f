"""The choice by links against the enumeration of all subsets, and what it costs where there are too many of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from vgpu_scheduler.kernels import DeviceColumns, best_linked, link_scratch
from vgpu_scheduler.model import Device
from vgpu_scheduler.state import DeviceMatrix

Table = NDArray[np.int64]


def columns_of(table: Table) -> DeviceColumns:
    matrix = DeviceMatrix(3)
    names = [f"card-{number}" for number in range(len(table))]
    rows = [tuple(zip(names, (int(score) for score in scores), strict=True)) for scores in table]
    matrix.replace(1, [Device(name, "V", "T", (1,), links=row) for name, row in zip(names, rows, strict=True)])
    return matrix.columns


def chosen(table: Table, walk: Sequence[int], wanted: int) -> tuple[list[int], bool]:
    """Positions in the walk of the cards that the kernel takes (copies from the first on), and whether it is sure."""
    columns = columns_of(table)
    picks = np.array([*walk, -7], dtype=np.int64) + columns.first[1]
    exact = best_linked(columns, 1, picks, len(walk), wanted, link_scratch(len(walk), wanted))
    found: list[int] = []
    for card in picks[:wanted] - columns.first[1]:
        found.append(next(i for i, other in enumerate(walk) if other == card and i not in found))
    return found, bool(exact)


def first_best(table: Table, walk: Sequence[int], wanted: int) -> list[int]:
    """As HAMi finds it: by looking at all of them in the order of the walk."""

    def score(subset: Sequence[int]) -> int:
        return sum(int(table[walk[a], walk[b]]) for a, b in combinations(subset, 2) if walk[a] != walk[b])

    if wanted == 1:
        sums = [sum(int(table[one, other]) for other in walk if other != one) for one in walk]
        return [sums.index(min(sums))]
    best = max(score(subset) for subset in combinations(range(len(walk)), wanted))
    return list(next(s for s in combinations(range(len(walk)), wanted) if score(s) == best))


def random_table(rng: np.random.Generator, cards: int) -> Table:
    kind = rng.integers(5)
    if kind == 0:  # few values: many subsets are equal
        table = rng.choice(np.array([10, 20, 300]), size=(cards, cards))
    elif kind == 1:
        table = np.full((cards, cards), rng.integers(-2, 3))
    elif kind == 2:  # cards that are linked in groups
        group = rng.integers(0, 3, size=cards)
        table = np.where(group[:, None] == group[None, :], 250, 20)
    elif kind == 3:
        table = rng.integers(-100, 100, size=(cards, cards))
    else:
        table = rng.integers(0, 2**40, size=(cards, cards))
    return np.triu(table) + np.triu(table, 1).T if rng.random() < 0.8 else table


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_looking_at_all_subsets_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(150):
        cards = int(rng.integers(2, 8))
        table = random_table(rng, cards)
        walk = [int(c) for c in rng.permutation(cards) for _ in range(rng.integers(1, 4) if rng.random() < 0.3 else 1)]
        wanted = int(rng.integers(1, len(walk)))
        found, exact = chosen(table, walk, wanted)
        assert exact
        assert found == first_best(table, walk, wanted), (table, walk, wanted)


@pytest.mark.parametrize("wanted", [2, 5, 8, 11])
def test_sixteen_cards(wanted: int) -> None:
    for seed in range(2):
        table = random_table(np.random.default_rng(seed), 16)
        walk = [int(card) for card in np.random.default_rng(seed).permutation(16)]
        assert chosen(table, walk, wanted) == (first_best(table, walk, wanted), True)


def clusters(cards: int, size: int) -> Table:
    group = np.arange(cards) // size
    return np.where(group[:, None] == group[None, :], 600, 20)


MANY = {
    "equal": np.full((8, 8), 300),
    "two groups": clusters(8, 4),
    "pairs": clusters(8, 2),
    "random": random_table(np.random.default_rng(3), 8),
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("wanted", [2, 7, 8, 12, 28, 49])
def test_placements_of_eight_cards_are_not_enumerated(name: str, wanted: int) -> None:
    """56 candidates have up to 7e15 subsets; the result is the best that counts per card can give."""
    walk = [card for card in range(8) for _ in range(7)]
    chosen(MANY[name], walk, wanted)
    began = time.process_time()
    found, exact = chosen(MANY[name], walk, wanted)
    assert time.process_time() - began < 0.1  # a millisecond or two; machines differ
    assert exact
    counts = np.bincount([walk[i] for i in found], minlength=8)
    assert counts.sum() == wanted
    best = value_of(MANY[name], counts)
    for one, other in combinations(range(8), 2):  # no exchange of one card makes it better
        for a, b in ((one, other), (other, one)):
            if counts[a] > 0 and counts[b] < 7:
                moved = counts.copy()
                moved[a] -= 1
                moved[b] += 1
                assert value_of(MANY[name], moved) <= best


def value_of(table: Table, counts: NDArray[np.int64]) -> int:
    return sum(int(counts[a] * counts[b] * table[a, b]) for a, b in combinations(range(len(counts)), 2))


def test_a_table_made_to_be_hard_ends_all_the_same() -> None:
    rng = np.random.default_rng(5)
    table = rng.integers(0, 1000, size=(16, 16))
    walk = [card for card in range(16) for _ in range(7)]
    began = time.process_time()
    found, _ = chosen(np.triu(table) + np.triu(table, 1).T, walk, 56)
    assert time.process_time() - began < 2
    assert len(set(found)) == 56
