"""Cards that are given out in pieces: which piece a claim gets, and whether all that is in use of a card is explained.

A piece of a card is a row of amounts like any other: shares, memory, cores, one placement, and 1 of each *slice* that
it covers. A partitioned card has 1 of each of its slices, so two pieces fit beside each other if no slice is used
twice, and nothing here is special to one vendor's numbering. Two rules follow from the amounts alone:

* every share that is in use of a partitioned card must have a placement, all of one *weight*, and
* no slice may be used beyond what the card has: not twice, and not at all on a card that is not partitioned.

A card on which either does not hold is in a state that nobody can explain, and is given to nobody. The weight is what a
piece books of the placements: 1 where pieces may stand beside each other as they like; where they are parts of
templates, of which a card follows one at a time, each template has its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vgpu_scheduler.kernels.tables import FIRST_SLICE, MEMORY, PLACED, SLOTS, DeviceColumns

NO_PIECE = -1


@njit(cache=True)
def is_explained(columns: DeviceColumns, device: int) -> bool:
    """Tell whether all that is in use of a device has a place on it; the matrix asks whenever that changes."""
    total, used = columns.total, columns.used
    if total.shape[1] <= PLACED:
        return True
    explained = not columns.partitioned[device] or _has_one_weight(columns, device)
    for slice_ in range(FIRST_SLICE, total.shape[1]):
        explained = explained and used[device, slice_] <= total[device, slice_]
    return explained


@njit(cache=True)
def _has_one_weight(columns: DeviceColumns, device: int) -> bool:
    """Tell whether all shares in use of a partitioned device have placements of one weight."""
    shares, placed = columns.used[device, SLOTS], columns.used[device, PLACED]
    if placed == shares:  # nothing in use, or placements of weight 1
        return shares == 0 or not _follows_templates(columns, device)
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if placed == shares * columns.pieces[piece, PLACED]:
            return True
    return False


@njit(cache=True)
def _follows_templates(columns: DeviceColumns, device: int) -> bool:
    first = columns.piece_first[device]
    return first < columns.piece_last[device] and columns.pieces[first, PLACED] > 1  # type: ignore[no-any-return]


@njit(cache=True)
def find_piece(
    columns: DeviceColumns, device: int, memory: int, used: NDArray[np.int64], taken: NDArray[np.int64]
) -> int:
    """Find the first piece of a device that has the memory and is free.

    Parameters
    ----------
    columns, device
        The device matrix, and a device number.
    memory
        What the piece must have.
    used, taken
        What is used of the device, and what is taken besides, shape (K,) each; shares, placements and slices are
        looked at.

    Returns
    -------
    int
        The number of the piece, or ``NO_PIECE``.
    """
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if columns.pieces[piece, MEMORY] < memory:
            continue
        shares = used[SLOTS] + taken[SLOTS]
        free = used[PLACED] + taken[PLACED] == shares * columns.pieces[piece, PLACED]
        for slice_ in range(FIRST_SLICE, used.shape[0]):
            needed = columns.pieces[piece, slice_]
            if needed > 0 and used[slice_] + taken[slice_] + needed > columns.total[device, slice_]:
                free = False
                break
        if free:
            return piece
    return NO_PIECE
