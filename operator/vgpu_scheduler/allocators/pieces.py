"""The largest free piece of cards that are given out in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import MEMORY, DeviceColumns, find_largest_free_pieces

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
    nothing = np.zeros(columns.used.shape[1], dtype=np.int64)
    find_largest_free_pieces(columns, devices, dimension, np.array(counted, dtype=np.int64), nothing, largest)
    return largest
