"""GPUs of one partition of a node, in plain Python: every partition is looked at. Slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

WEIGHTS = {8: 10000, 4: 100, 2: 1}
"""What a partition of so many GPUs that stays whole is worth."""


class Partition(NamedTuple):
    """GPUs that are given out together, by their minors."""

    members: tuple[int, ...]
    score: int
    bandwidth: int | None = None


Table = Mapping[int, Sequence[Partition]]
"""By the number of GPUs."""

HOPPER: Table = {
    size: [Partition(tuple(range(first, first + size)), 1) for first in range(0, 8, size)] for size in (1, 2, 4, 8)
}


def choose(
    table: Table | None,
    count: int,
    free: frozenset[int],
    used: frozenset[int],
    bandwidth: int | None = None,
    *,
    restricted: bool = False,
) -> tuple[int, ...] | None:
    """The members of the best partition; None where there is none.

    Partitions with the lowest score are looked at first, which is Koordinator's order, whatever its comments say.
    """
    listed = (table or {}).get(count, [])
    scores = sorted({partition.score for partition in listed})
    for score in scores[:1] if restricted else scores:
        found = [p for p in listed if p.score == score and {*p.members} <= free and _is_fast(p, bandwidth)]
        if found:
            assert table is not None
            values = [_left_whole(table, count, used | {*p.members}) for p in found]
            return found[values.index(max(values))].members
    return None


def _is_fast(partition: Partition, bandwidth: int | None) -> bool:
    return bandwidth is None or (partition.bandwidth is not None and partition.bandwidth >= bandwidth)


def _left_whole(table: Table, count: int, taken: frozenset[int]) -> int:
    """What partitions are worth of which nobody has a GPU; of each size those of the lowest score count."""
    value = 0
    for size, weight in WEIGHTS.items():
        listed = table.get(size, []) if size >= count else []
        lowest = min((partition.score for partition in listed), default=0)
        value += sum(weight * p.score for p in listed if p.score == lowest and taken.isdisjoint(p.members))
    return value
