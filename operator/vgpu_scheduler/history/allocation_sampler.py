"""Sample the allocation of cards; a sample costs as much as nodes have changed since the last one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine import PARTS, part_of_card
from vgpu_scheduler.history.replay_result import Series
from vgpu_scheduler.state import State


class _Sample(NamedTuple):
    """The allocation of the cards of a node, or of all; see :class:`Series`. Cards are counted in PARTS of one."""

    cards: int = 0
    allocated: int = 0
    stranded_free: int = 0
    idle: int = 0


class AllocationSampler:
    """Records the allocation of cards each time that it is read.

    Parameters
    ----------
    state
        The state with the usage of cards.
    dialects
        The dialects, which tell memory and compute among the dimensions.
    """

    def __init__(self, state: State, dialects: Dialects) -> None:
        self._state = state
        self._dialects = dialects
        self._version = -1
        self._of_row: dict[int, _Sample] = {}
        self._sample = _Sample()
        self._noted: list[tuple[float, _Sample]] = []

    def read(self, now: float) -> None:
        """Record the allocation from now on."""
        nodes = self._state.nodes
        for row in np.flatnonzero(nodes.version > self._version).tolist():
            before = self._of_row.pop(row, _Sample())
            after = self._of_row[row] = self._on(row) if nodes.alive[row] else _Sample()
            moved = zip(self._sample, before, after, strict=True)
            self._sample = _Sample(*(all_ - old + new for all_, old, new in moved))
        self._version = nodes.latest_version
        if self._noted and self._noted[-1][0] == now:
            self._noted.pop()
        if not self._noted or self._noted[-1][1] != self._sample:
            self._noted.append((now, self._sample))

    def series(self) -> Series:
        """Return the recorded samples."""
        rows = np.array([(at, *sample) for at, sample in self._noted], dtype=np.float64).reshape(-1, 5)
        rows[:, 1:] /= PARTS
        return Series(*(np.ascontiguousarray(column) for column in rows.T))

    def _on(self, row: int) -> _Sample:
        """Return the allocation of the cards of a node."""
        cards = allocated = stranded_free = idle = 0
        for dialect in self._dialects:
            matrix = self._state.matrix(dialect.name)
            for device, (_, used) in zip(matrix.devices(row), matrix.usage(row), strict=True):
                if device.vendor not in dialect.inventory.cards or not device.in_service or device.part:
                    continue  # no card, such as RDMA and FPGA devices, out of service, or counted with its card already
                part = part_of_card(dialect.inventory, device, used)
                cards += PARTS
                allocated += part
                idle += 0 if any(used) else PARTS
                stranded_free += PARTS - part if any(used) else 0
        return _Sample(cards, allocated, stranded_free, idle)
