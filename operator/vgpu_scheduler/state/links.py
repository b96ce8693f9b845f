"""Link scores between the devices of each node, as blocks of one column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import NO_PAIRS
from vgpu_scheduler.model import Device
from vgpu_scheduler.state.row_segments import RowSegments

_LARGEST = 2**40
"""Scores are cut to this, so that no sum of them overflows."""
_MOST_CARDS = 32
"""Nodes with more cards get no block, because its size is quadratic; real nodes have fewer."""


class LinkBlocks:
    """A block of pair scores per node row: its devices times its devices, row by row, in the order of the matrix.

    Nodes on which no device has links have no block.
    """

    def __init__(self) -> None:
        self._blocks = RowSegments((np.int64, 0), absent=NO_PAIRS)

    @property
    def first(self) -> NDArray[np.int64]:
        """By row, shape (N,), the begin of its block in :attr:`scores`; ``NO_PAIRS`` for rows without a block."""
        return self._blocks.first

    @property
    def scores(self) -> NDArray[np.int64]:
        """The blocks of all rows, one after the other, with gaps."""
        return self._blocks.columns[0]

    def ensure_rows(self, rows: int) -> None:
        """Make room for node rows up to ``rows``."""
        self._blocks.ensure_rows(rows)

    def replace(self, row: int, devices: Sequence[Device]) -> None:
        """Set the links of a node row from its devices."""
        if len(devices) > _MOST_CARDS or not any(device.links for device in devices):
            self.clear(row)
            return
        block = _block(devices)
        entries = self._blocks.replace(row, block.size)
        self.scores[entries] = block.ravel()

    def clear(self, row: int) -> None:
        """Remove the links of a node row."""
        self._blocks.replace(row, 0)


def _block(devices: Sequence[Device]) -> NDArray[np.int64]:
    position = {device.uuid: number for number, device in enumerate(devices)}
    block = np.zeros((len(devices), len(devices)), dtype=np.int64)
    for number, device in enumerate(devices):
        for uuid, score in device.links:
            if uuid in position and uuid != device.uuid:
                block[number, position[uuid]] = max(-_LARGEST, min(_LARGEST, score))
    return block
