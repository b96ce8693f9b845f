"""Namespace quotas within Fit: what a pod would hold of a vendor's cards in all, against what is left for it.

A pod holds of each card the larger of its peak while init containers run and of the sum of the others, as the ledger
books it, and of a vendor the sum over the cards. So a pick costs what it raises the peak of its card by: an init
container on a card that an app container has more of later costs nothing twice.

Cards that are chosen by their links are checked one by one first. If those chosen are too much together, they are
given up for the first ones of the walk that are not: links are a preference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.partitions import NO_PIECE, is_of_template, piece_for
from vgpu_scheduler.kernels.tables import (
    CHECK_UNITS,
    CORES,
    GROWTH,
    HELD,
    MEMORY,
    MORE,
    PEAK,
    QUOTA_CORES,
    QUOTA_MEMORY,
    SPENT,
    DeviceColumns,
    Request,
    Scratch,
    claimed_cores,
    resolve,
)

_WHOLE = 100


@kernel
def _counted(columns: DeviceColumns, request: Request, claim: int, device: int, amount: int, held: int) -> int:
    """Return what quotas count of an amount that the pod holds of a card."""
    total = columns.total[device, CORES]
    if amount == QUOTA_CORES and request.checks[claim] & CHECK_UNITS and total > 0:
        return -(-held * _WHOLE // total)  # type: ignore[no-any-return]
    return held


@kernel
def open_claim(columns: DeviceColumns, request: Request, claim: int, row: int, scratch: Scratch) -> None:
    """Begin with nothing picked: what the pod holds of the claim's vendor from its claims before this one."""
    base = columns.first[row]
    quota = scratch.quota
    quota[SPENT] = 0
    for position in range(columns.last[row] - base):
        if columns.vendor[base + position] == request.vendor[claim]:
            for amount in range(2):
                peak = quota[PEAK + position, amount]
                quota[SPENT, amount] += _counted(columns, request, claim, base + position, amount, peak)


@kernel
def open_card(columns: DeviceColumns, device: int, used: NDArray[np.int64], scratch: Scratch) -> None:
    """Begin with what the pod holds of a card already; ``used`` is what is used of it with the pod, shape (K,)."""
    scratch.quota[HELD, QUOTA_MEMORY] = used[MEMORY] - columns.used[device, MEMORY]
    scratch.quota[HELD, QUOTA_CORES] = used[CORES] - columns.used[device, CORES]


@kernel
def within_quota(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    position: int,
    memory: int,
    cores: int,
    picks: bool,
    scratch: Scratch,
) -> bool:
    """Tell whether a pick of the open card leaves the pod within its quotas; ``picks`` also counts it as picked."""
    quota, device = scratch.quota, columns.first[row] + position
    quota[MORE, QUOTA_MEMORY], quota[MORE, QUOTA_CORES] = memory, cores
    for amount in range(2):
        peak, held = quota[PEAK + position, amount], quota[HELD, amount]
        before = _counted(columns, request, claim, device, amount, max(peak, held))
        after = _counted(columns, request, claim, device, amount, max(peak, held + quota[MORE, amount]))
        if quota[SPENT, amount] + after - before > request.left[claim, amount]:
            return False
        quota[GROWTH, amount] = after - before
    if picks:
        for amount in range(2):
            quota[HELD, amount] += quota[MORE, amount]
            quota[SPENT, amount] += quota[GROWTH, amount]
    return True


@kernel
def piece_within_quota(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    position: int,
    piece: int,
    picks: bool,
    scratch: Scratch,
) -> bool:
    """Tell the same of a piece of the open card: it is booked with its own amounts, not with those asked for."""
    cores = columns.pieces[piece, CORES]
    if is_of_template(columns, piece):  # templates say nothing of cores
        cores += min(request.amounts[claim, CORES], _WHOLE)
    return within_quota(columns, request, claim, row, position, columns.pieces[piece, MEMORY], cores, picks, scratch)


@kernel
def keep_within_quota(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    picks: NDArray[np.int64],
    picked: int,
    used: NDArray[np.int64],
    scratch: Scratch,
) -> int:
    """Keep those picks, from the first on, that are within the quotas together, as many as are wanted.

    Parameters
    ----------
    picks
        Device numbers, copies of a device beside each other; the ones to keep are moved to the front.
    picked
        How many there are.
    used
        What is used of the cards of the node row, shape (cards, K).

    Returns
    -------
    int
        How many are kept.
    """
    taken = scratch.taken
    base, kept, last = columns.first[row], 0, np.int64(-1)
    open_claim(columns, request, claim, row, scratch)
    for i in range(picked):
        device = picks[i]
        position = device - base
        if device != last:
            last = device
            open_card(columns, device, used[position], scratch)
            taken[:] = 0
        memory = resolve(request, claim, columns.total, device, MEMORY)
        cores = claimed_cores(request, claim, columns.total, device)
        if columns.partitioned[device]:
            piece = piece_for(columns, request, claim, device, used[position], taken)
            if piece == NO_PIECE:
                continue
            if not piece_within_quota(columns, request, claim, row, position, piece, True, scratch):
                continue
            taken += columns.pieces[piece]
        elif not within_quota(columns, request, claim, row, position, memory, cores, True, scratch):
            continue
        picks[kept] = device
        kept += 1
        if kept == request.wanted[claim]:
            break
    return kept


@kernel
def raise_peak(columns: DeviceColumns, device: int, position: int, used: NDArray[np.int64], scratch: Scratch) -> None:
    """Note what the pod holds of a card after a pick was booked."""
    open_card(columns, device, used, scratch)
    for amount in range(2):
        scratch.quota[PEAK + position, amount] = max(
            scratch.quota[PEAK + position, amount], scratch.quota[HELD, amount]
        )
