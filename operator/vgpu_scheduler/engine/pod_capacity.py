"""How many pods that ask the same nodes have room for at most: what says beforehand that a group cannot be placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator
from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.state import DeviceMatrix, State

__all__ = ["PodCapacity", "capacity_for"]


class PodCapacity(NamedTuple):
    """How many pods of a class there is room for at most.

    Attributes
    ----------
    counts
        No less than how many can be placed on each node that was asked about, shape (n,).
    scarcest
        What nodes together have the least of, as a reason says it; empty where nothing bounds the number.
    """

    counts: NDArray[np.int64]
    scarcest: str


def capacity_for(state: State, part: NodePart, rows: NDArray[np.int64], most: int) -> PodCapacity:
    """Count how many pods of a class there is room for.

    Only amounts are counted, each by itself: requests, the pods that a node takes, and the hardest claim of a card.

    Parameters
    ----------
    part
        The node part of the class; up to date on the rows.
    rows
        The nodes, shape (n,).
    most
        More than that are not counted on a node.
    """
    fits = part.feasible[rows]
    if not fits.any():  # what nodes say of one pod says it all
        return PodCapacity(np.zeros_like(rows), "")
    found, least, scarcest = np.where(fits, most, 0), int(fits.sum()) * most, ""
    for reason, counts in _bounds(state, part, rows, most):
        bound = np.where(fits, np.maximum(counts, 1), 0)  # there is room for one where one fits
        if int(bound.sum()) < least:
            least, scarcest = int(bound.sum()), reason
        np.minimum(found, bound, out=found)
    return PodCapacity(found, scarcest)


def _bounds(
    state: State, part: NodePart, rows: NDArray[np.int64], most: int
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    if part.allocator is not None:
        for reason, counts in _of_cards(state.matrix(part.dialect), part.allocator, most):
            yield reason, counts[rows]
    for each, counts in part.predicates.max_pods(rows, most):
        yield each.text, counts


def _of_cards(devices: DeviceMatrix, allocator: Allocator, most: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield how many pods the cards of each node row have enough of each amount for at most, shape (capacity,)."""
    need, columns = allocator.need(), devices.columns
    if need is None:
        return
    usable = allocator.may_use(devices) & columns.in_service()
    usable &= columns.vendor == devices.vendor_number(need.vendor)
    for dimension, (amount, percent) in enumerate(zip(need.amounts, need.percent, strict=True)):
        if not amount and not percent:
            continue
        total = columns.total[:, dimension]
        asked = np.full_like(total, amount) if amount else total * percent // WHOLE
        free = np.maximum(total - columns.used[:, dimension], 0)
        # What a card that is given out in pieces has of an amount is not what bounds it.
        counts = np.where((asked > 0) & ~columns.partitioned, free // np.maximum(asked, 1), most)
        before = np.concatenate([[0], np.cumsum(np.where(usable, np.minimum(counts, most), 0))])
        of_node = (before[columns.last] - before[columns.first]) // need.cards
        yield need.reasons[dimension].text, np.minimum(of_node, most)
