"""Upper bounds of how many equivalent pods fit on nodes, to find out beforehand that a group cannot be placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, amounts_of
from vgpu_scheduler.engine.equivalence import NodePart, RefusedClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import DeviceMatrix, State


class PodCapacity(NamedTuple):
    """Upper bounds of how many pods of a class fit.

    Attributes
    ----------
    counts
        For each node row, at least as many as fit there, shape (capacity,).
    scarcest
        What the nodes together have the least of, worded as a reason; empty where nothing bounds the number.
    """

    counts: NDArray[np.int64]
    scarcest: str


def capacity_for(classes: EquivalenceClasses, pod: Pod, most: int) -> PodCapacity:
    """Return an upper bound of how many pods like this one fit on each node row; 0 if the pod is refused.

    Only amounts are counted, each by itself: requests, the node's pod limit, and the most demanding claim of a card.

    Parameters
    ----------
    most
        The largest count per node.
    """
    state, pod_class = classes.state, classes.of(pod)
    counts = np.zeros(state.nodes.capacity, dtype=np.int64)
    if isinstance(pod_class, RefusedClass):
        return PodCapacity(counts, "")
    part, rows = pod_class.node, state.nodes.rows()
    part.refresh(state, rows)
    fits = part.feasible[rows]
    if not fits.any():  # the rejections of a single pod explain it
        return PodCapacity(counts, "")
    least, scarcest = int(fits.sum()) * most, ""
    smallest_bounds = np.where(fits, most, 0)
    for reason, bounds in _bounds(state, part, rows, most):
        of_fitting = np.where(fits, np.maximum(bounds, 1), 0)  # where a pod fits there is room for at least one
        if int(of_fitting.sum()) < least:
            least, scarcest = int(of_fitting.sum()), reason
        np.minimum(smallest_bounds, of_fitting, out=smallest_bounds)
    counts[rows] = smallest_bounds
    return PodCapacity(counts, scarcest)


def _bounds(
    state: State, part: NodePart, rows: NDArray[np.int64], most: int
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    if part.allocator is not None:
        for reason, counts in _of_cards(state.matrix(part.dialect), part.allocator, most):
            yield reason, counts[rows]
    for each, counts in part.predicates.max_pods(rows, most):
        yield each.text, counts


def _of_cards(devices: DeviceMatrix, allocator: Allocator, most: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield for each amount how many pods the cards of each node row have enough of it for, shape (capacity,)."""
    need, columns = allocator.need(), devices.columns
    if need is None:
        return
    usable = allocator.may_use(devices) & columns.in_service()
    usable &= columns.vendor == devices.vendor_number(need.vendor)
    for dimension, (amount, percent) in enumerate(zip(need.amounts, need.percent, strict=True)):
        if not amount and not percent:
            continue
        total = columns.total[:, dimension]
        asked = amounts_of(amount, percent, total)
        free = np.maximum(total - columns.used[:, dimension], 0)
        # On cards that are divided into pieces, the card's amounts are no bound.
        counts = np.where((asked > 0) & ~columns.partitioned, free // np.maximum(asked, 1), most)
        before = np.concatenate([[0], np.cumsum(np.where(usable, np.minimum(counts, most), 0))])
        of_node = (before[columns.last] - before[columns.first]) // need.cards
        yield need.reasons[dimension].text, np.minimum(of_node, most)
