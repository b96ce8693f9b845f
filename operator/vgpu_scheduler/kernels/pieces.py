"""Cards that are given out in pieces: the piece that a claim gets, and whether the usage of a card is consistent.

A piece of a card is a row of amounts: slots, memory, cores, a placement per slot, and 1 of each *slice* that it covers,
if cards of its kind have slices. A partitioned card has 1 of each slice, so two pieces fit on it if they share none,
whatever a vendor's numbering is. The usage of a card is *consistent* if

* on a partitioned card every slot in use has a placement, all of one *weight*, and
* no slice is used beyond what the card has: not twice, and not at all on a card that is not partitioned.

Other cards are given to no pod. The weight is the number of placements that a piece books per slot: 1 if pieces can be
combined freely. If pieces are parts of templates, and a card follows one template at a time, each template has its own
weight.

An example: a card with two templates, whose pieces take one slot and 64 or 4096 placements. With two pieces of the
first in use there are 2 shares and 128 placed, so ``placed * slots == shares * placements`` holds for a third piece of
it (128 * 1 == 2 * 64), and not for one of the second (128 * 1 != 2 * 4096): that would mix the templates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns, DimensionRole
from vgpu_scheduler.kernels.request import CardClaim, Request, claimed_cores, resolve
from vgpu_scheduler.kernels.rules import Check
from vgpu_scheduler.kernels.sentinels import NO_PIECE

_ONE_PIECE = int(Check.ONE_PIECE)
_PLACEMENTS, _FIRST_SLICE, _END_SLICE = (
    int(DimensionRole.PLACEMENTS),
    int(DimensionRole.FIRST_SLICE),
    int(DimensionRole.END_SLICE),
)


class PieceRequirement(NamedTuple):
    """What a piece must have: at least this memory and compute, and exactly these slots unless they are 0."""

    slots: int
    memory: int
    cores: int


@entry_kernel
def is_consistent(columns: DeviceColumns, device: int) -> bool:
    """Tell whether the usage of a device is consistent; the matrix updates this whenever the usage changes."""
    role = columns.roles[columns.schema[device]]
    consistent = not columns.partitioned[device] or _has_one_weight(columns, device)
    for slice_ in range(role[_FIRST_SLICE], role[_END_SLICE]):
        consistent = consistent and columns.used[device, slice_] <= columns.total[device, slice_]
    return consistent


@entry_kernel
def update_consistency(columns: DeviceColumns) -> None:
    """Update ``consistent`` for all devices whose pieces have places."""
    for device in range(columns.consistent.shape[0]):
        if columns.roles[columns.schema[device], _PLACEMENTS] >= 0:
            columns.consistent[device] = is_consistent(columns, device)


@kernel
def _has_one_weight(columns: DeviceColumns, device: int) -> bool:
    """Tell whether all slots in use of a partitioned device have placements of one weight."""
    placements = columns.roles[columns.schema[device], _PLACEMENTS]
    shares, placed = columns.used[device, SLOTS], columns.used[device, placements]
    first, last = columns.piece_first[device], columns.piece_last[device]
    if placed == shares:  # nothing in use, or placements of weight 1
        return shares == 0 or first == last or not is_of_template(columns, device, first)
    for piece in range(first, last):
        if placed * columns.pieces[piece, SLOTS] == shares * columns.pieces[piece, placements]:
            return True
    return False


@kernel
def is_of_template(columns: DeviceColumns, device: int, piece: int) -> bool:
    """Tell whether a piece of a device is a part of a template: it books more placements than slots."""
    placements = columns.roles[columns.schema[device], _PLACEMENTS]
    return columns.pieces[piece, placements] > columns.pieces[piece, SLOTS]  # type: ignore[no-any-return]


@kernel
def cores_of_piece(columns: DeviceColumns, request: Request, claim: int, device: int, piece: int) -> int:
    """Return the compute that is booked for a piece: its own, plus the claimed compute if it is part of a template."""
    cores = columns.pieces[piece, CORES]
    if is_of_template(columns, device, piece):
        cores += claimed_cores(request, claim, columns.total, device)
    return cores  # type: ignore[no-any-return]


@kernel
def _suits(columns: DeviceColumns, piece: int, wanted: PieceRequirement) -> bool:
    return (
        columns.pieces[piece, MEMORY] >= wanted.memory
        and columns.pieces[piece, CORES] >= wanted.cores
        and (wanted.slots == 0 or columns.pieces[piece, SLOTS] == wanted.slots)
    )


@kernel
def _wanted(columns: DeviceColumns, request: Request, claim: int, device: int) -> PieceRequirement:
    """Return the requirements for a piece of a device: memory, and for some vendors compute and slots."""
    memory = resolve(request, claim, columns.total, device, MEMORY)
    if not request.rules.checks[claim] & _ONE_PIECE:
        return PieceRequirement(0, memory, 0)
    slots: int = request.claims.amounts[claim, SLOTS]
    return PieceRequirement(slots, memory, claimed_cores(request, claim, columns.total, device))


@kernel
def offers_piece(columns: DeviceColumns, request: Request, claim: int, device: int) -> bool:
    """Tell whether a device can be cut into a piece that suits a claim, free or not."""
    wanted = _wanted(columns, request, claim, device)
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if _suits(columns, piece, wanted):
            return True
    return False


@kernel
def piece_for(columns: DeviceColumns, request: Request, here: CardClaim, device: int, taken: NDArray[np.int64]) -> int:
    """Find the first piece of a device that suits a claim and is free.

    Parameters
    ----------
    columns, request, here
        The device matrix, the pod, and the claim on its node.
    device
        A device number.
    taken
        Amounts taken in addition to the device's usage, shape (K,); slots, placements and slices are read.

    Returns
    -------
    int
        The number of the piece, or ``NO_PIECE``.
    """
    wanted, used = _wanted(columns, request, here.claim, device), here.used[device - here.base]
    for piece in range(columns.piece_first[device], columns.piece_last[device]):
        if _suits(columns, piece, wanted) and _is_free(columns, device, piece, used, taken):
            return piece
    return NO_PIECE


@entry_kernel
def find_largest_free_pieces(
    columns: DeviceColumns,
    devices: NDArray[np.int64],
    dimension: int,
    counted: NDArray[np.int64],
    taken: NDArray[np.int64],
    largest: NDArray[np.int64],
) -> None:
    """Find the largest free piece of each device.

    Parameters
    ----------
    columns
        The device matrix.
    devices
        Device numbers, shape (n,).
    dimension
        The dimension in which pieces are compared.
    counted
        Dimensions of which the device must have enough free in addition to slots, shape (m,).
    taken
        Amounts taken in addition to the usage of each device, shape (K,).
    largest
        Shape (n,). Raised to the amount of the largest free piece; unchanged for devices without one.
    """
    for number in range(devices.shape[0]):
        device = devices[number]
        used = columns.used[device]
        for piece in range(columns.piece_first[device], columns.piece_last[device]):
            amount = columns.pieces[piece, dimension]
            fits = amount > largest[number] and _is_free(columns, device, piece, used, taken)
            if fits and used[SLOTS] + taken[SLOTS] + columns.pieces[piece, SLOTS] <= columns.total[device, SLOTS]:
                for each in counted:
                    fits = (
                        fits and used[each] + taken[each] + columns.pieces[piece, each] <= columns.total[device, each]
                    )
                if fits:
                    largest[number] = amount


@kernel
def _is_free(
    columns: DeviceColumns, device: int, piece: int, used: NDArray[np.int64], taken: NDArray[np.int64]
) -> bool:
    """Tell whether a piece is compatible with what is used and taken of its device: same weight, no common slice."""
    role = columns.roles[columns.schema[device]]
    placements = role[_PLACEMENTS]
    placed, shares = used[placements] + taken[placements], used[SLOTS] + taken[SLOTS]
    if placed * columns.pieces[piece, SLOTS] != shares * columns.pieces[piece, placements]:
        return False
    for slice_ in range(role[_FIRST_SLICE], role[_END_SLICE]):
        needed = columns.pieces[piece, slice_]
        if needed > 0 and used[slice_] + taken[slice_] + needed > columns.total[device, slice_]:
            return False
    return True
