"""Cards that are given out together: the partitions of a node, as a table of sets of cards (Koordinator)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.sentinels import NO_PARTITION, NO_TABLE

MOST_MEMBERS = 62
"""A card of a partition has a smaller index: sets of them are bits of a number."""
LARGEST_SIZE = 8
"""Larger partitions are worth nothing to those who look for smaller ones."""


class PartitionTables(NamedTuple):
    """``T`` tables of ``P`` partitions in all, those of each table by size, then score, then as they were listed."""

    first: NDArray[np.int64]  # (T,) the partitions of a table are first : last
    last: NDArray[np.int64]  # (T,)
    only: NDArray[np.bool_]  # (T,) whole cards are given out in no other way
    size: NDArray[np.int64]  # (P,) number of cards
    mask: NDArray[np.int64]  # (P,) a bit for the index of each
    score: NDArray[np.int64]  # (P,) lower ones are looked at first
    bandwidth: NDArray[np.int64]  # (P,) bytes a second, or -1


class PartitionTerms(NamedTuple):
    """Which claims go by partitions, and what they want of them."""

    tables: PartitionTables
    table: NDArray[np.int32]  # (D,) the number of the table of the node that a device is on, or NO_TABLE
    claims: NDArray[np.bool_]  # (C,) whether a claim goes by them
    required: bool  # cards of no partition do not do
    first_only: bool  # only partitions of the lowest score
    bandwidth: int  # the least that it must have, or -1


def partition_mask(members: Iterable[int]) -> int:
    """Return the bits of cards by their indexes, each below :data:`MOST_MEMBERS`."""
    return sum(1 << member for member in members)


@kernel
def is_bound_to_partitions(terms: PartitionTerms, device: int) -> bool:
    """Tell whether only partitions do, on the node that a device is on."""
    table = terms.table[device]
    return bool(terms.required or (table != NO_TABLE and terms.tables.only[table]))


@kernel
def best_partition(terms: PartitionTerms, device: int, wanted: int, free: int, taken: int) -> int:
    """Return the number of the best partition of so many cards, or ``NO_PARTITION``.

    Of those with the lowest score that has any, the one that leaves most other partitions whole; then the first.

    Parameters
    ----------
    terms
        The tables.
    device
        A device of the node.
    wanted
        How many cards it must have.
    free
        The bits of the cards that may be taken.
    taken
        The bits of those that somebody uses.
    """
    table = terms.table[device]
    if table == NO_TABLE:
        return NO_PARTITION
    tables = terms.tables
    best, best_value, score, groups = NO_PARTITION, 0, 0, 0
    for number in range(tables.first[table], tables.last[table]):
        if tables.size[number] != wanted:
            continue
        if groups == 0 or tables.score[number] != score:
            if groups > 0 and (best != NO_PARTITION or terms.first_only):
                break
            groups, score = groups + 1, tables.score[number]
        mask = tables.mask[number]
        if mask & free != mask or tables.bandwidth[number] < terms.bandwidth:
            continue
        value = _left_whole(tables, table, wanted, taken | mask)
        if best == NO_PARTITION or value > best_value:
            best, best_value = number, value
    return best


@kernel
def _left_whole(tables: PartitionTables, table: int, wanted: int, taken: int) -> int:
    """Return what the larger partitions are worth of which no card is taken: of each size those of the lowest score."""
    value = 0
    size, lowest = 0, 0
    for number in range(tables.first[table], tables.last[table]):
        if tables.size[number] != size:
            size, lowest = tables.size[number], tables.score[number]
        if size < wanted or tables.score[number] != lowest or tables.mask[number] & taken != 0:
            continue
        if size == LARGEST_SIZE:
            value += 10000 * lowest
        elif size == 4:
            value += 100 * lowest
        elif size == 2:
            value += lowest
    return value
