"""The choice of the best node, and the detection of nodes that changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel
from vgpu_scheduler.kernels.sentinels import NO_ROW


@entry_kernel
def select_best(
    rows: NDArray[np.int64],
    feasible: NDArray[np.bool_],
    score: NDArray[np.float64],
    rank: NDArray[np.int64],
) -> int:
    """Return the feasible row with the highest score; equal scores go to the lowest rank (name).

    Parameters
    ----------
    rows
        Node rows to choose from, shape (n,).
    feasible, score, rank
        By node row, shape (N,).

    Returns
    -------
    int
        The row, or ``NO_ROW`` when none is feasible.
    """
    best = NO_ROW
    for i in range(rows.shape[0]):
        row = rows[i]
        if not feasible[row]:
            continue
        if best == NO_ROW:
            best = row
            continue
        if score[row] > score[best] or (score[row] == score[best] and rank[row] < rank[best]):
            best = row
    return best


@entry_kernel
def stale_rows(
    rows: NDArray[np.int64], version: NDArray[np.int64], seen: NDArray[np.int64], out: NDArray[np.int64]
) -> int:
    """Collect the rows whose version differs from the one seen last, and mark them seen.

    Parameters
    ----------
    rows
        Live node rows, shape (n,).
    version, seen
        By node row, shape (N,); ``seen`` is updated.
    out
        Receives the stale rows, shape (>= n,).

    Returns
    -------
    int
        The number of stale rows.
    """
    found = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if seen[row] != version[row]:
            seen[row] = version[row]
            out[found] = row
            found += 1
    return found
