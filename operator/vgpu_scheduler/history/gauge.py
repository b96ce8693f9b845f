"""How the cards stand: looking costs as much as nodes have changed since the last time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vgpu_scheduler.dialects import Dialects, Inventory
from vgpu_scheduler.history.course import Series
from vgpu_scheduler.model import WHOLE, Amounts, Device
from vgpu_scheduler.state import State

__all__ = ["Gauge"]

_SLOTS: Final = 0
"""The dimension of what cards are counted in that are not measured."""
_DIGITS: Final = 9
"""Of a card's parts: sums that are taken apart again leave nothing."""


class _Stand(NamedTuple):
    """How the cards of a node stand, or those of all nodes; see :class:`Series`."""

    cards: float = 0.0
    given: float = 0.0
    stranded: float = 0.0
    whole: float = 0.0


class Gauge:
    """Notes how the cards stand, at each time that it is read.

    Parameters
    ----------
    state
        Knows what is used of them.
    dialects
        Know what of it is memory and compute.
    """

    def __init__(self, state: State, dialects: Dialects) -> None:
        self._state = state
        self._dialects = dialects
        self._version = -1
        self._of_row: dict[int, _Stand] = {}
        self._stand = _Stand()
        self._noted: list[tuple[float, _Stand]] = []

    def read(self, now: float) -> None:
        """Note how the cards stand from now on."""
        nodes = self._state.nodes
        for row in np.flatnonzero(nodes.version > self._version).tolist():
            before = self._of_row.pop(row, _Stand())
            after = self._of_row[row] = self._on(row) if nodes.alive[row] else _Stand()
            moved = zip(self._stand, before, after, strict=True)
            self._stand = _Stand(*(round(all_ - old + new, _DIGITS) for all_, old, new in moved))
        self._version = nodes.latest_version
        if self._noted and self._noted[-1][0] == now:
            self._noted.pop()
        if not self._noted or self._noted[-1][1] != self._stand:
            self._noted.append((now, self._stand))

    def series(self) -> Series:
        """Return what was noted."""
        rows = np.array([(at, *stand) for at, stand in self._noted], dtype=np.float64).reshape(-1, 5)
        return Series(*(np.ascontiguousarray(column) for column in rows.T))

    def _on(self, row: int) -> _Stand:
        """Return how the cards of a node stand."""
        cards = whole = 0
        given = stranded = 0.0
        for dialect in self._dialects:
            matrix = self._state.matrix(dialect.name)
            for device, (_, used) in zip(matrix.devices(row), matrix.usage(row), strict=True):
                if not device.healthy or device.cordoned:
                    continue  # out of service, and whoever holds it gets nothing of it
                part = _part(dialect.inventory, device, used)
                cards += 1
                given += part
                whole += not any(used)
                stranded += 1.0 - part if any(used) else 0.0
        return _Stand(cards, given, stranded, whole)


def _part(inventory: Inventory, device: Device, used: Amounts) -> float:
    """Return what is given out of a card: the largest of its parts of slots, memory and compute."""
    if not any(used):
        return 0.0
    found = [
        used[dimension] / device.total[dimension] for dimension in (_SLOTS, inventory.memory) if device.total[dimension]
    ]
    if total := device.total[inventory.cores]:
        found.append(device.compute_percent(used[inventory.cores], total) / WHOLE)
    return round(min(max(found, default=0.0), 1.0), _DIGITS)
