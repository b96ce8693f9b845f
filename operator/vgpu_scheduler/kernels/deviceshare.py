"""Koordinator's DeviceShare score: how much of a set of devices is allocated once one instance of a pod is placed.

The same formula scores one card or all cards of a node. It uses 64-bit integers, and every division truncates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns


class ShareTerms(NamedTuple):
    """A strategy and its ``R`` weighted resources; resources of no known device are left out."""

    most: bool  # MostAllocated instead of LeastAllocated
    weight: NDArray[np.int64]  # (R,)
    vendor: NDArray[np.int32]  # (R,) vendor of the devices
    dimension: NDArray[np.int64]  # (R,) dimension of the devices
    percent: NDArray[np.bool_]  # (R,) counted in percent: each device has 100


class ShareDemand(NamedTuple):
    """What one instance of a pod requests per device: ``V`` vendors, ``K`` dimensions."""

    vendor: NDArray[np.int32]  # (V,)
    amounts: NDArray[np.int64]  # (V, K); if 0, see percent
    percent: NDArray[np.int64]  # (V, K)


class ShareAsk(NamedTuple):
    """What one instance of a pod requests of a device of one vendor: ``K`` dimensions."""

    vendor: int
    amounts: NDArray[np.int64]  # (K,); if 0, see percent
    percent: NDArray[np.int64]  # (K,)


NO_SHARE = ShareTerms(
    most=False,
    weight=np.zeros(0, dtype=np.int64),
    vendor=np.zeros(0, dtype=np.int32),
    dimension=np.zeros(0, dtype=np.int64),
    percent=np.zeros(0, dtype=np.bool_),
)
"""Terms without resources: every score is 0."""

_MOST_AMOUNT = 1 << 44  # larger claims fit nowhere; the limit keeps products within int64


@kernel
def _asked_percent(asked: ShareAsk, dimension: int, whole: int, cards: int) -> int:
    """Return the request of one instance for a resource that is counted in percent.

    An amount is converted to percent of the average card. There is no conversion the other way: as in Koordinator, a
    request in percent does not count for a resource in another unit.
    """
    amount = min(asked.amounts[dimension], _MOST_AMOUNT)
    if amount > 0:
        return amount * 100 * cards // whole  # type: ignore[no-any-return]
    return asked.percent[dimension]  # type: ignore[no-any-return]


@entry_kernel
def share_score(columns: DeviceColumns, first: int, used: NDArray[np.int64], terms: ShareTerms, asked: ShareAsk) -> int:
    """Score contiguous devices of one vendor as if they were one device, 0 to 100.

    Parameters
    ----------
    columns
        The device matrix.
    first
        The number of the first device; unhealthy devices and devices of other vendors are skipped.
    used
        Usage of each device, shape (devices, K).
    terms
        Strategy and weights.
    asked
        The request of one instance, and its vendor.
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
        if total == 0:  # the resource and its weight do not count
            continue
        allocated = total  # more free than capacity (inconsistent) counts as full, without the request
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
    """Score nodes for a pod: the sum of one score per device type that it requests (may exceed 100).

    A type with nothing free adds 0, as in Koordinator, which leaves such devices out before scoring.

    Parameters
    ----------
    columns
        The device matrix.
    terms, demand
        Strategy and weights; the request of one instance of the pod.
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
