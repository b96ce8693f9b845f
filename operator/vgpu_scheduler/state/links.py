"""How close the devices of each node are to each other, as blocks of one column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import NO_PAIRS
from vgpu_scheduler.model import Device

_MIN_SIZE = 64
_GROWTH = 2
_LARGEST = 2**40
"""Scores are cut to this, so that no sum of them overflows."""
_MOST_CARDS = 32
"""A node with more cards than any has no block: it would have the square of their number of entries."""


class LinkBlocks:
    """A block of pair scores per node row: its devices times its devices, row by row, in the order of the matrix.

    Nodes on which no device has links have no block. Blocks of nodes whose devices change are left behind as gaps and
    closed once more than half of the column is gaps.
    """

    def __init__(self) -> None:
        self.first = np.zeros(0, dtype=np.int64)
        self.scores = np.zeros(_MIN_SIZE, dtype=np.int64)
        self._size: dict[int, int] = {}
        self._end = 0
        self._live = 0

    def ensure_rows(self, rows: int) -> None:
        """Make room for node rows up to ``rows``."""
        more = rows - self.first.shape[0]
        if more > 0:
            self.first = np.pad(self.first, (0, more), constant_values=NO_PAIRS)

    def replace(self, row: int, devices: Sequence[Device]) -> None:
        """Give a node row the links of these devices."""
        self.clear(row)
        if len(devices) > _MOST_CARDS or not any(device.links for device in devices):
            return
        block = _block(devices)
        if self._end + block.size > self.scores.shape[0]:
            self._close_gaps(block.size)
        self.scores[self._end : self._end + block.size] = block.ravel()
        self.first[row] = self._end
        self._size[row] = block.size
        self._end += block.size
        self._live += block.size

    def clear(self, row: int) -> None:
        """Take the links from a node row."""
        self._live -= self._size.pop(row, 0)
        self.first[row] = NO_PAIRS

    def _close_gaps(self, more: int) -> None:
        old, self.scores = self.scores, np.zeros(_GROWTH * (self._live + more), dtype=np.int64)
        self._end = 0
        for row, size in self._size.items():
            start = int(self.first[row])
            self.scores[self._end : self._end + size] = old[start : start + size]
            self.first[row] = self._end
            self._end += size


def _block(devices: Sequence[Device]) -> NDArray[np.int64]:
    position = {device.uuid: number for number, device in enumerate(devices)}
    block = np.zeros((len(devices), len(devices)), dtype=np.int64)
    for number, device in enumerate(devices):
        for uuid, score in device.links:
            if uuid in position and uuid != device.uuid:
                block[number, position[uuid]] = max(-_LARGEST, min(_LARGEST, score))
    return block
