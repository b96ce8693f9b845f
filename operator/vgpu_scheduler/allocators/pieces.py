"""How much cards have free in one piece, where they are given out in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import MEMORY, SLOTS, DeviceColumns, Role

__all__ = ["largest_free_pieces"]

_ANY = np.iinfo(np.int64).max


def largest_free_pieces(
    columns: DeviceColumns, devices: NDArray[np.int64], dimension: int = MEMORY, counted: Sequence[int] = ()
) -> NDArray[np.int64]:
    """Return what the largest piece that each device has a place for beside what is in use has of a dimension.

    Shape (n,). 0 where no piece has a place; of devices that are not given out in pieces, more than any has.

    Parameters
    ----------
    dimension
        What is returned of the piece: memory, or shares.
    counted
        The dimensions of which there has to be enough beside the place.
    """
    largest = np.where(columns.partitioned[devices], 0, _ANY)
    left = np.flatnonzero(columns.partitioned[devices])
    number = columns.piece_first[devices[left]]
    while (there := number < columns.piece_last[devices[left]]).any():
        left, number = left[there], number[there]
        fits = _have_place(columns, devices[left], number)
        for each in counted:
            needs = columns.used[devices[left], each] + columns.pieces[number, each]
            fits &= needs <= columns.total[devices[left], each]
        largest[left[fits]] = np.maximum(largest[left[fits]], columns.pieces[number[fits], dimension])
        number = number + 1
    return largest


def _have_place(columns: DeviceColumns, devices: NDArray[np.int64], pieces: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell of each device whether one piece goes together with what is in use: shares, same weight, other slices."""
    used, piece = columns.used[devices], columns.pieces[pieces]
    role, every = columns.roles[columns.schema[devices]], np.arange(devices.shape[0])
    placements = role[:, Role.PLACEMENTS]
    fits = used[every, placements] * piece[:, SLOTS] == used[:, SLOTS] * piece[every, placements]
    fits &= used[:, SLOTS] + piece[:, SLOTS] <= columns.total[devices, SLOTS]
    column = np.arange(used.shape[1])
    is_slice = (column >= role[:, [Role.FIRST_SLICE]]) & (column < role[:, [Role.END_SLICE]])
    twice = is_slice & (piece > 0) & (used + piece > columns.total[devices])
    have_place: NDArray[np.bool_] = fits & ~twice.any(axis=1)
    return have_place
