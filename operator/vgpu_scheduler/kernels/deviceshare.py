"""Koordinator's DeviceShare score: how much of a set of devices is allocated once one instance of a pod is there.

The formula is Koordinator's; one card and all cards of a node are the same to it. All of it is 64-bit integers, and
every division truncates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns


class ShareTerms(NamedTuple):
    """A strategy and the resources that it weighs, ``R`` of them; those that stand for no device are left out."""

    most: bool  # MostAllocated instead of LeastAllocated
    weight: NDArray[np.int64]  # (R,)
    vendor: NDArray[np.int32]  # (R,) whose devices
    dimension: NDArray[np.int64]  # (R,) which amount of them
    percent: NDArray[np.bool_]  # (R,) a device has 100 of it, whatever it has of the dimension


class ShareDemand(NamedTuple):
    """What one instance of a pod asks of a device: ``V`` vendors, ``K`` dimensions."""

    vendor: NDArray[np.int32]  # (V,)
    amounts: NDArray[np.int64]  # (V, K); 0 where percent may say it
    percent: NDArray[np.int64]  # (V, K)


class ShareAsk(NamedTuple):
    """What one instance of a pod asks of a device of one vendor: ``K`` dimensions."""

    vendor: int
    amounts: NDArray[np.int64]  # (K,); 0 where percent may say it
    percent: NDArray[np.int64]  # (K,)


NO_SHARE = ShareTerms(
    most=False,
    weight=np.zeros(0, dtype=np.int64),
    vendor=np.zeros(0, dtype=np.int32),
    dimension=np.zeros(0, dtype=np.int64),
    percent=np.zeros(0, dtype=np.bool_),
)
"""Terms that weigh nothing: every score is 0."""

_MOST_AMOUNT = 1 << 44  # a claim beyond this fits nowhere; held below it, no product leaves int64


@kernel
def _asked_percent(asked: ShareAsk, dimension: int, whole: int, cards: int) -> int:
    """Return what one instance asks of a resource that is counted in percent.

    An amount is brought to percent of the average card, of one card when there is one. Of a resource that is counted
    otherwise no percentage is asked, as with Koordinator, where a request in one unit is not seen in the other.
    """
    amount = min(asked.amounts[dimension], _MOST_AMOUNT)
    if amount > 0:
        return amount * 100 * cards // whole  # type: ignore[no-any-return]
    return asked.percent[dimension]  # type: ignore[no-any-return]


@entry_kernel
def share_score(columns: DeviceColumns, first: int, used: NDArray[np.int64], terms: ShareTerms, asked: ShareAsk) -> int:
    """Score some neighbouring devices of one vendor as if they were one, 0 to 100.

    Parameters
    ----------
    columns
        The device matrix.
    first
        The number of the first device; unhealthy ones, and those of other vendors, have nothing.
    used
        What is used of each, shape (devices, K).
    terms
        Strategy and weights.
    asked
        What one instance asks, and of which vendor.
    """
    vendor = asked.vendor
    score = 0
    weights = 0
    for r in range(terms.weight.shape[0]):
        if terms.vendor[r] != vendor:
            continue
        dimension = terms.dimension[r]
        total = 0
        free = 0
        whole = 0
        cards = 0
        for position in range(used.shape[0]):
            device = first + position
            has = columns.total[device, dimension]
            if has <= 0 or columns.vendor[device] != vendor or not columns.healthy[device]:
                continue
            left = max(has - used[position, dimension], 0)
            cards += 1
            whole += has
            if terms.percent[r]:
                total += 100
                free += 100 - (has - left) * 100 // has
            else:
                total += has
                free += left
        if total == 0:  # such a resource is skipped with its weight
            continue
        allocated = total  # more is free than there is: it counts as full, without the request
        if free <= total:
            allocated = total - free
            if terms.percent[r]:
                allocated += _asked_percent(asked, dimension, whole, cards)
            else:
                allocated += min(asked.amounts[dimension], _MOST_AMOUNT)
        part = 0
        if terms.most:
            part = min(allocated, total) * 100 // total
        elif allocated <= total:
            part = (total - allocated) * 100 // total
        score += part * terms.weight[r]
        weights += terms.weight[r]
    return score // weights if weights > 0 else 0


@kernel
def _anything_free(columns: DeviceColumns, first: int, last: int, vendor: int) -> bool:
    for device in range(first, last):
        if columns.vendor[device] == vendor and columns.healthy[device]:
            for dimension in range(columns.total.shape[1]):
                if columns.total[device, dimension] > columns.used[device, dimension]:
                    return True
    return False


@entry_kernel
def deviceshare_nodes(
    columns: DeviceColumns,
    terms: ShareTerms,
    demand: ShareDemand,
    rows: NDArray[np.int64],
    score: NDArray[np.float64],
) -> None:
    """Score nodes for a pod: one score per device type that it asks for, added up (more than 100 for several types).

    A type of which nothing is free adds 0, as in Koordinator, which leaves such devices out before it scores.

    Parameters
    ----------
    columns
        The device matrix.
    terms, demand
        Strategy and weights; what one instance of the pod asks for.
    rows
        Node rows, shape (n,).
    score
        Receives the scores, shape (n,).
    """
    for i in range(rows.shape[0]):
        first = columns.first[rows[i]]
        last = columns.last[rows[i]]
        total = 0
        for v in range(demand.vendor.shape[0]):
            vendor = demand.vendor[v]
            if _anything_free(columns, first, last, vendor):
                asked = ShareAsk(vendor, demand.amounts[v], demand.percent[v])
                total += share_score(columns, first, columns.used[first:last], terms, asked)
        score[i] = total
