"""Random nodes with pods on their cards, and what the kernel says of them against the twin."""

from __future__ import annotations

import sys

import numpy as np
from tests.naive.victims import Card, Cost, Occupant, cheapest_set

from vgpu_scheduler.kernels import (
    MOST_SETS,
    NEVER_BELOW,
    NO_PRIORITY,
    CardAsk,
    DeviceColumns,
    EvictionCosts,
    Occupants,
    SetScratch,
    cheapest_at_least,
    subtract_costless,
    where_costless_suffice,
)
from vgpu_scheduler.state import DeviceMatrix

DIMENSIONS = 3


def random_card(rng: np.random.Generator, *, most: int) -> Card:
    """Return a card with up to so many pods."""
    priorities = [0, 1, 5, -7, 2_000_000_000]
    occupants = [
        Occupant(
            int(rng.choice(priorities)),
            float(rng.choice([10.0, 20.0, np.inf])),
            (1, int(rng.integers(0, 5)) * 1000, int(rng.choice([0, 10, 50]))),
            bool(rng.random() < 0.2),
        )
        for _ in range(int(rng.integers(0, most + 1)))
    ]
    occupants.sort(key=lambda occupant: (not occupant.costs_nothing, -occupant.priority, occupant.start))
    used = tuple(
        sum(occupant.amounts[d] for occupant in occupants) + int(rng.choice([0, 0, 1])) for d in range(DIMENSIONS)
    )
    total = tuple(amount + int(rng.integers(0, 3)) for amount in used)
    return Card(total, used, tuple(occupants), bool(rng.random() < 0.9))


def by_kernel(
    nodes: list[list[Card]], needed: tuple[int, ...], percent: tuple[int, ...], priority: int
) -> list[Cost | None]:
    """Return what the kernel says of each node."""
    cards = [card for node in nodes for card in node]
    ends = np.cumsum([len(node) for node in nodes]).astype(np.int64)
    entries = [
        (position, occupant) for node in nodes for position, card in enumerate(node) for occupant in card.occupants
    ]
    of_node = np.cumsum([sum(len(card.occupants) for card in node) for node in nodes]).astype(np.int64)
    columns = DeviceMatrix(DIMENSIONS).columns._replace(
        first=np.concatenate([[0], ends[:-1]]).astype(np.int64),
        last=ends,
        total=np.array([card.total for card in cards], dtype=np.int64).reshape(-1, DIMENSIONS),
        used=np.array([card.used for card in cards], dtype=np.int64).reshape(-1, DIMENSIONS),
    )
    assert isinstance(columns, DeviceColumns)
    occupants = Occupants(
        np.concatenate([[0], of_node[:-1]]).astype(np.int64),
        of_node,
        np.array([position for position, _ in entries], dtype=np.int64),
        np.array([NEVER_BELOW if one.costs_nothing else one.priority for _, one in entries], dtype=np.int64),
        np.array([occupant.start for _, occupant in entries], dtype=np.float64),
        np.array([occupant.amounts for _, occupant in entries], dtype=np.int64).reshape(-1, DIMENSIONS),
        np.array([one.priority if one.costs_nothing else NEVER_BELOW for _, one in entries], dtype=np.int64),
    )
    may_use = np.array([card.may_use for card in cards], dtype=np.bool_)
    ask = CardAsk(priority, np.array(needed, dtype=np.int64), np.array(percent, dtype=np.int64), may_use)
    count = len(nodes)
    into = EvictionCosts(*(np.zeros(count, dtype=np.int64) for _ in range(3)), np.zeros(count))
    scratch = SetScratch(np.zeros((2**MOST_SETS, DIMENSIONS), dtype=np.int64), np.zeros(2**MOST_SETS, dtype=np.int64))
    rows = np.arange(count)
    subtract_costless(rows, occupants, ask, columns)
    cheapest_at_least(columns, occupants, ask, rows, scratch, into)
    where_costless_suffice(columns, occupants, ask, rows, into)
    return [
        None if highest == NO_PRIORITY else (int(highest), int(total), int(pods), -float(start))
        for highest, total, pods, start in zip(*into, strict=True)
    ]


def compare(worlds: int) -> int:
    """Compare so many worlds; return in how many nodes pods would have to end."""
    found = 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        nodes = [[random_card(rng, most=5) for _ in range(int(rng.integers(0, 4)))] for _ in range(3)]
        needed = (1, int(rng.integers(0, 9)) * 1000, int(rng.choice([0, 30, 100])))
        percent = (0, int(rng.choice([0, 50, 100])) if not needed[1] else 0, 0)
        priority = int(rng.choice([0, 2, 6, 2_000_000_001]))
        expected = []
        for node in nodes:
            costs = [cost for card in node if (cost := cheapest_set(card, needed, percent, priority)) is not None]
            expected.append(min(costs, default=None))
        answer = by_kernel(nodes, needed, percent, priority)
        assert answer == expected, (seed, answer, expected)
        found += sum(cost is not None for cost in expected)
    return found


if __name__ == "__main__":
    print(compare(int(sys.argv[1])))
