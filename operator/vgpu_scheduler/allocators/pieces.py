"""The largest free piece of cards that are given out in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import MEMORY, SLOTS, DeviceColumns, DimensionRole

_ANY = np.iinfo(np.int64).max


def largest_free_pieces(
    columns: DeviceColumns, devices: NDArray[np.int64], dimension: int = MEMORY, counted: Sequence[int] = ()
) -> NDArray[np.int64]:
    """Return the amount, in one dimension, of the largest free piece of each device.

    Shape (n,). 0 where no piece is free; a very large number for devices that are not given out in pieces.

    Parameters
    ----------
    dimension
        The dimension to return: memory, or slots.
    counted
        Dimensions of which the device must also have enough free.
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
    """Tell for each device whether a piece is compatible with its usage: free slots, same weight, no common slice."""
    used, piece = columns.used[devices], columns.pieces[pieces]
    role, every = columns.roles[columns.schema[devices]], np.arange(devices.shape[0])
    placements = role[:, DimensionRole.PLACEMENTS]
    fits = used[every, placements] * piece[:, SLOTS] == used[:, SLOTS] * piece[every, placements]
    fits &= used[:, SLOTS] + piece[:, SLOTS] <= columns.total[devices, SLOTS]
    column = np.arange(used.shape[1])
    is_slice = (column >= role[:, [DimensionRole.FIRST_SLICE]]) & (column < role[:, [DimensionRole.END_SLICE]])
    twice = is_slice & (piece > 0) & (used + piece > columns.total[devices])
    have_place: NDArray[np.bool_] = fits & ~twice.any(axis=1)
    return have_place
