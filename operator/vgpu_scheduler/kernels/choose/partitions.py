"""Partitions of a node (Koordinator): tables of sets of cards that are given out together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.sentinels import NO_PARTITION, NO_TABLE

MOST_MEMBERS = 62
"""Indexes of cards in partitions are below this, because sets of cards are bits of an int64."""
LARGEST_SIZE = 8
"""The largest partition size that counts as worth keeping whole."""


class PartitionTables(NamedTuple):
    """``T`` tables with ``P`` partitions in total; each table is sorted by size, then score, then listed order."""

    first: NDArray[np.int64]  # (T,) the partitions of a table are first : last
    last: NDArray[np.int64]  # (T,)
    only: NDArray[np.bool_]  # (T,) whole cards are only given out by partition
    size: NDArray[np.int64]  # (P,) number of cards
    mask: NDArray[np.int64]  # (P,) bits of the cards' indexes
    score: NDArray[np.int64]  # (P,) lower scores are tried first
    bandwidth: NDArray[np.int64]  # (P,) bytes a second, or -1


class PartitionTerms(NamedTuple):
    """Which claims are placed by partition, and their requirements."""

    tables: PartitionTables
    table: NDArray[np.int32]  # (D,) number of the table of the device's node, or NO_TABLE
    claims: NDArray[np.bool_]  # (C,) whether a claim is placed by partition
    required: bool  # cards outside partitions are not accepted
    first_only: bool  # only partitions of the lowest score
    bandwidth: int  # the minimum bandwidth, or -1


def partition_mask(members: Iterable[int]) -> int:
    """Return the bits of cards by their indexes, each below :data:`MOST_MEMBERS`."""
    return sum(1 << member for member in members)


@kernel
def is_bound_to_partitions(terms: PartitionTerms, device: int) -> bool:
    """Tell whether claims must be placed by partition on the node of a device."""
    table = terms.table[device]
    return bool(terms.required or (table != NO_TABLE and terms.tables.only[table]))


@kernel
def best_partition(terms: PartitionTerms, device: int, wanted: int, free: int, taken: int) -> int:
    """Return the number of the best free partition of ``wanted`` cards, or ``NO_PARTITION``.

    Among those of the lowest score with a free one, it is the one that keeps most other partitions whole, then the
    first.

    Parameters
    ----------
    terms
        The tables.
    device
        A device of the node.
    wanted
        The number of cards.
    free
        The bits of the cards that may be taken.
    taken
        The bits of the cards in use.
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
    """Return the value of the partitions that stay whole: per size from ``wanted`` on, those of the lowest score."""
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
