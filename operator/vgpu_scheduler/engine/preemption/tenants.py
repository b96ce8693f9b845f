"""Who holds what of the cards of all nodes, as columns that follow the versions of the nodes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.victims import started
from vgpu_scheduler.kernels import Tenants, stale_rows
from vgpu_scheduler.state import State

__all__ = ["TenantTable"]

_NEVER: Final = -1
_FEWEST: Final = 1024
"""Entries that there is room for in the beginning."""


class TenantTable:
    """The pods on the cards of one dialect; those that may never end, whoever asks, are left out.

    A node is read anew when its version has moved. What it had before is left behind until the table is packed.

    Parameters
    ----------
    state
        What is known.
    dialect
        Whose devices it is about.
    """

    def __init__(self, state: State, dialect: str) -> None:
        self._state = state
        self._dialect = dialect
        self._matrix = state.matrix(dialect)
        self._seen = np.full(0, _NEVER, dtype=np.int64)
        self._first = self._last = np.zeros(0, dtype=np.int64)
        self._end = self._live = 0
        self._allocate(_FEWEST)

    def _allocate(self, size: int) -> None:
        self._position = np.zeros(size, dtype=np.int64)
        self._priority = np.zeros(size, dtype=np.int64)
        self._start = np.zeros(size, dtype=np.float64)
        self._amounts = np.zeros((size, self._matrix.dimensions), dtype=np.int64)

    def refresh(self, rows: NDArray[np.int64]) -> Tenants:
        """Bring some node rows up to date; return the columns, which are valid until the next time."""
        nodes = self._state.nodes
        more = nodes.capacity - self._seen.shape[0]
        if more:
            self._seen = np.pad(self._seen, (0, more), constant_values=_NEVER)
            self._first, self._last = (np.pad(column, (0, more)) for column in (self._first, self._last))
        stale = np.empty_like(rows)
        count = stale_rows(rows, nodes.version, self._seen, stale)
        for row in stale[:count].tolist():
            self._read(row)
        return Tenants(self._first, self._last, self._position, self._priority, self._start, self._amounts)

    def _read(self, row: int) -> None:
        entries = self._entries(row)
        self._live += len(entries) - int(self._last[row] - self._first[row])
        self._first[row] = self._last[row] = self._end
        if self._end + len(entries) > self._position.shape[0]:
            self._pack(max(_FEWEST, 2 * self._live))
        first, last = self._end, self._end + len(entries)
        for number, (position, importance, amounts) in enumerate(entries, start=first):
            self._position[number] = position
            self._priority[number], self._start[number] = -importance[0], importance[1]
            self._amounts[number] = 0
            self._amounts[number, : len(amounts)] = amounts
        self._first[row], self._last[row], self._end = first, last, last

    def _entries(self, row: int) -> list[tuple[int, tuple[int, float, str], tuple[int, ...]]]:
        """Return position, importance and amounts of each pod on each device of a node, in the order of the columns."""
        state, matrix = self._state, self._matrix
        devices, first = matrix.devices(row), int(matrix.columns.first[row])
        entries = []
        for held in state.reservations(state.nodes.name(row)):
            pod = state.pod(held.uid)
            if pod is None or pod.is_static or held.closes_cards:
                continue
            importance = -pod.priority, started(pod), pod.key
            for uuid, amounts in held.device_charges(self._dialect, devices).items():
                device = matrix.position(row, uuid)
                assert device is not None
                entries.append((device - first, importance, amounts))
        return sorted(entries)

    def _pack(self, size: int) -> None:
        """Move all entries that mean something to the beginning of larger columns."""
        kept = np.flatnonzero(self._last > self._first)
        kept = kept[np.argsort(self._first[kept])]
        taken = [np.arange(self._first[row], self._last[row]) for row in kept.tolist()]
        old: tuple[NDArray[Any], ...] = (self._position, self._priority, self._start, self._amounts)
        source: NDArray[np.int64] = np.concatenate([np.empty(0, dtype=np.int64), *taken])
        self._allocate(size)
        for column, before in zip((self._position, self._priority, self._start, self._amounts), old, strict=True):
            column[: source.shape[0]] = before[source]
        lengths = self._last[kept] - self._first[kept]
        self._last[kept] = np.cumsum(lengths)
        self._first[kept] = self._last[kept] - lengths
        self._end = int(source.shape[0])
