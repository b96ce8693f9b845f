"""Cards that are given out in pieces: which piece a claim gets, and whether all that is in use of a card is explained.

A piece of a card is a row of amounts like any other: shares, memory, cores, a placement per share, and 1 of each
*slice* that it covers, if cards of its kind have any. A partitioned card has 1 of each of its slices, so two pieces fit
beside each other if no slice is used twice, and nothing here is special to one vendor's numbering. Two rules follow
from the amounts alone:

* every share that is in use of a partitioned card must have a placement, all of one *weight*, and
* no slice may be used beyond what the card has: not twice, and not at all on a card that is not partitioned.

A card on which either does not hold is in a state that nobody can explain, and is given to nobody. The weight is what a
piece books of the placements for each share: 1 where pieces may stand beside each other as they like; where they are
parts of templates, of which a card follows one at a time, each template has its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.tables import (
    CHECK_PIECE,
    CORES,
    FIRST_SLICE,
    MEMORY,
    PLACED,
    SLOTS,
    DeviceColumns,
    Request,
    claimed_cores,
    resolve,
)

NO_PIECE = -1


@kernel
def is_explained(columns: DeviceColumns, device: int) -> bool:
    """Tell whether all that is in use of a device has a place on it; the matrix asks whenever that changes."""
    total, used = columns.total, columns.used
    if total.shape[1] <= PLACED:
        return True
    explained = not columns.partitioned[device] or _has_one_weight(columns, device)
    for slice_ in range(FIRST_SLICE, total.shape[1]):
        explained = explained and used[device, slice_] <= total[device, slice_]
    return explained


@kernel
def _has_one_weight(columns: DeviceColumns, device: int) -> bool:
    """Tell whether all shares in use of a partitioned device have placements of one weight."""
    shares, placed = columns.used[device, SLOTS], columns.used[device, PLACED]
    if placed == shares:  # nothing in use, or placements of weight 1
        return shares == 0 or not _follows_templates(columns, device)
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if placed * columns.pieces[piece, SLOTS] == shares * columns.pieces[piece, PLACED]:
            return True
    return False


@kernel
def _follows_templates(columns: DeviceColumns, device: int) -> bool:
    first = columns.piece_first[device]
    return first < columns.piece_last[device] and is_of_template(columns, first)


@kernel
def is_of_template(columns: DeviceColumns, piece: int) -> bool:
    """Tell whether a piece is a part of a template: its placements weigh more than its shares."""
    return columns.pieces[piece, PLACED] > columns.pieces[piece, SLOTS]  # type: ignore[no-any-return]


@kernel
def suits(columns: DeviceColumns, piece: int, slots: int, memory: int, cores: int) -> bool:
    """Tell whether a piece has the memory and the cores, and exactly these shares, unless they are 0."""
    return (
        columns.pieces[piece, MEMORY] >= memory
        and columns.pieces[piece, CORES] >= cores
        and (slots == 0 or columns.pieces[piece, SLOTS] == slots)
    )


@kernel
def offers_piece(columns: DeviceColumns, device: int, slots: int, memory: int, cores: int) -> bool:
    """Tell whether a device can be cut into a piece that suits, free or not."""
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if suits(columns, piece, slots, memory, cores):
            return True
    return False


@kernel
def find_piece(
    columns: DeviceColumns,
    device: int,
    slots: int,
    memory: int,
    cores: int,
    used: NDArray[np.int64],
    taken: NDArray[np.int64],
) -> int:
    """Find the first piece of a device that suits and is free.

    Parameters
    ----------
    columns, device
        The device matrix, and a device number.
    slots, memory, cores
        What the piece must have: see :func:`suits`.
    used, taken
        What is used of the device, and what is taken besides, shape (K,) each; shares, placements and slices are
        looked at.

    Returns
    -------
    int
        The number of the piece, or ``NO_PIECE``.
    """
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if not suits(columns, piece, slots, memory, cores):
            continue
        placed, shares = used[PLACED] + taken[PLACED], used[SLOTS] + taken[SLOTS]
        free = placed * columns.pieces[piece, SLOTS] == shares * columns.pieces[piece, PLACED]
        for slice_ in range(FIRST_SLICE, used.shape[0]):
            needed = columns.pieces[piece, slice_]
            if needed > 0 and used[slice_] + taken[slice_] + needed > columns.total[device, slice_]:
                free = False
                break
        if free:
            return piece
    return NO_PIECE


@kernel
def piece_for(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    device: int,
    used: NDArray[np.int64],
    taken: NDArray[np.int64],
) -> int:
    """Find the piece of a device that a claim gets: by memory, and by compute and shares where its maker says so."""
    memory = resolve(request, claim, columns.total, device, MEMORY)
    if not request.checks[claim] & CHECK_PIECE:
        return find_piece(columns, device, 0, memory, 0, used, taken)
    cores = claimed_cores(request, claim, columns.total, device)
    return find_piece(columns, device, request.amounts[claim, SLOTS], memory, cores, used, taken)
