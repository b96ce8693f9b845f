"""Koordinator's DeviceShare score: how much of a set of devices is allocated once one instance of a pod is there.

The formula is D4-17 to D4-25; one card and all cards of a node are the same to it. All of it is 64-bit integers, and
every division truncates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel

if TYPE_CHECKING:  # the card order of another kernel is made with this formula, so that one imports this module
    from vgpu_scheduler.kernels.tables import DeviceColumns, Request


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


NO_SHARE = ShareTerms(
    False,
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.bool_),
)
"""Terms that weigh nothing: every score is 0 (D4-18)."""

_MOST_AMOUNT = 1 << 44  # a claim beyond this fits nowhere; held below it, no product leaves int64


@kernel
def _asked(amount: int, percent: int, in_percent: bool, whole: int, cards: int) -> int:
    """Return what one instance asks of a resource.

    A percentage is asked of resources that are counted in percent only, as with Koordinator, where a request in one
    unit is not seen in the other. An amount is brought to percent of the average card, of one card when there is one.
    """
    amount = min(amount, _MOST_AMOUNT)
    if not in_percent:
        return amount
    if amount > 0:
        return amount * 100 * cards // whole
    return percent


@kernel
def share_score(
    columns: DeviceColumns,
    used: NDArray[np.int64],
    base: int,
    first: int,
    last: int,
    vendor: int,
    terms: ShareTerms,
    amounts: NDArray[np.int64],
    percent: NDArray[np.int64],
) -> int:
    """Score some neighbouring devices of one vendor as if they were one, 0 to 100.

    Parameters
    ----------
    columns
        The device matrix.
    used, base
        What is used, shape (n, K), and the device number of its first row.
    first, last
        The devices: ``first`` to ``last - 1``; unhealthy ones, and those of other vendors, have nothing.
    vendor, terms
        Whose devices; strategy and weights.
    amounts, percent
        What one instance asks of a device, shape (K,).
    """
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
        for device in range(first, last):
            has = columns.total[device, dimension]
            if has <= 0 or columns.vendor[device] != vendor or not columns.healthy[device]:
                continue
            left = max(has - used[device - base, dimension], 0)
            cards += 1
            whole += has
            if terms.percent[r]:
                total += 100
                free += 100 - (has - left) * 100 // has
            else:
                total += has
                free += left
        if total == 0:  # such a resource is skipped with its weight (D4-20)
            continue
        allocated = total  # more is free than there is: it counts as full, without the request (D4-21)
        if free <= total:
            allocated = total - free + _asked(amounts[dimension], percent[dimension], terms.percent[r], whole, cards)
        part = 0
        if terms.most:
            part = min(allocated, total) * 100 // total
        elif allocated <= total:
            part = (total - allocated) * 100 // total
        score += part * terms.weight[r]
        weights += terms.weight[r]
    return score // weights if weights > 0 else 0


@kernel
def score_shares(
    columns: DeviceColumns, request: Request, claim: int, base: int, used: NDArray[np.int64], score: NDArray[np.float32]
) -> None:
    """Score every card of a node for one instance of what a container claims of the card's vendor.

    Parameters
    ----------
    columns, request
        The device matrix; the pod's claims, strategy and weights.
    claim
        Number of the container's first claim.
    base
        Device number of the node's first card.
    used
        What is used of the node's cards, shape (cards, K).
    score
        Receives the scores, shape (>= cards,); 0 for a card that the container has no claim on.
    """
    claims = request.container.shape[0]
    container = request.container[claim]
    for position in range(used.shape[0]):
        device = base + position
        vendor = columns.vendor[device]
        own = claim
        while own < claims and request.container[own] == container and request.vendor[own] != vendor:
            own += 1
        score[position] = 0.0
        if own < claims and request.container[own] == container:
            amounts, percent = request.amounts[own], request.percent[own]
            score[position] = share_score(
                columns, used, base, device, device + 1, vendor, request.share, amounts, percent
            )


@kernel
def _anything_free(columns: DeviceColumns, first: int, last: int, vendor: int) -> bool:
    for device in range(first, last):
        if columns.vendor[device] == vendor and columns.healthy[device]:
            for dimension in range(columns.total.shape[1]):
                if columns.total[device, dimension] > columns.used[device, dimension]:
                    return True
    return False


@kernel
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
                total += share_score(
                    columns, columns.used, 0, first, last, vendor, terms, demand.amounts[v], demand.percent[v]
                )
        score[i] = total
