"""What pods request of nodes and hold of cards, as columns that are updated when a node's version rises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.victims import costs_nothing, importance, started
from vgpu_scheduler.kernels import NEVER_BELOW, Occupants, PodRequests, stale_rows
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import NodeTable, Reservation, RowSegments, State

_NEVER: Final = -1
_FEWEST: Final = 1024
"""Initial number of entries."""


def is_evictable(pod: Pod, reservation: Reservation) -> bool:
    """Tell whether a pod could be a victim, policies aside: not if its end is not certain to free room."""
    return not pod.is_static and not reservation.closes_cards


def _priorities(pod: Pod, reservation: Reservation) -> tuple[int, int]:
    """Return (priority, NEVER_BELOW) of a pod that has to be evicted, else (NEVER_BELOW, priority)."""
    return (NEVER_BELOW, pod.priority) if costs_nothing(pod, reservation) else (pod.priority, NEVER_BELOW)


class _Segments(RowSegments):
    """Entries of node rows that are updated when a node's version rises."""

    def __init__(self, *shapes: tuple[type[np.generic], int]) -> None:
        super().__init__(*shapes, size=_FEWEST)
        self._seen = np.full(0, _NEVER, dtype=np.int64)

    def stale(self, nodes: NodeTable, rows: NDArray[np.int64]) -> list[int]:
        """Return which of the rows have changed since the last call for them, and mark them as up to date."""
        more = nodes.capacity - self._seen.shape[0]
        if more:
            self._seen = np.pad(self._seen, (0, more), constant_values=_NEVER)
            self.ensure_rows(nodes.capacity)
        stale = np.empty_like(rows)
        found: list[int] = stale[: stale_rows(rows, nodes.holders_version, self._seen, stale)].tolist()
        return found


class OccupantTable:
    """The pods on the cards of one dialect; pods that can never be evicted are left out.

    Parameters
    ----------
    state
        The cluster's state.
    dialect
        The dialect of the devices; if empty, the first listed one.
    disruption
        Tells the priority that counts for a pod's eviction.
    """

    def __init__(self, state: State, dialect: str, disruption: GroupDisruption) -> None:
        self._state = state
        self._disruption = disruption
        self._matrix = state.matrix(dialect)
        self._dialect = next(name for name, matrix in state.matrices.items() if matrix is self._matrix)
        self._segments = _Segments(
            (np.int64, 0), (np.int64, 0), (np.float64, 0), (np.int64, self._matrix.dimensions), (np.int64, 0)
        )

    def refresh(self, rows: NDArray[np.int64]) -> Occupants:
        """Update the given node rows; return the columns, which are valid until the next call."""
        segments = self._segments
        for row in segments.stale(self._state.nodes, rows):
            entries = sorted(self._entries(row))
            for number, entry in enumerate(entries, start=segments.replace(row, len(entries)).start):
                position, (priority, start, _, costless), amounts = entry
                segments.columns[0][number] = position
                segments.columns[1][number], segments.columns[2][number] = -priority, start
                segments.columns[3][number] = 0
                segments.columns[3][number, : len(amounts)] = amounts
                segments.columns[4][number] = costless
        return Occupants(segments.first, segments.last, *segments.columns)

    def _entries(self, row: int) -> Iterator[tuple[int, tuple[int, float, str, int], Sequence[int]]]:
        """Yield position, importance and amounts of each pod on each device of a node."""
        state, matrix = self._state, self._matrix
        first = int(matrix.columns.first[row])
        for reservation in state.reservations(state.nodes.name(row)):
            pod = state.pod(reservation.uid)
            if pod is None or not is_evictable(pod, reservation):
                continue
            priority, costless = _priorities(self._disruption.with_group_priority(pod), reservation)
            entry = *importance(pod, priority), costless
            for device, amounts in reservation.charges_on(self._dialect, matrix, row):
                yield device - first, entry, amounts


class RequestTable:
    """What pods request of their nodes; pods that can never be evicted are left out.

    Parameters
    ----------
    state
        The cluster's state.
    disruption
        Tells the priority that counts for a pod's eviction.
    """

    def __init__(self, state: State, disruption: GroupDisruption) -> None:
        self._state = state
        self._disruption = disruption
        self._resources = 0
        self._segments = _Segments()
        self._priorities = Counter[int]()
        """Number of pods in the columns by priority."""

    def any_costless(self, rows: NDArray[np.int64]) -> bool:
        """Update the given node rows; tell whether the table has a pod that costs nothing to evict."""
        self.refresh(rows)
        return self._priorities[NEVER_BELOW] > 0

    def priorities(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Update the given node rows; return the priorities of the pods in the table, ascending.

        Pods that cost nothing to evict are left out.
        """
        self.refresh(rows)
        known = (priority for priority, count in self._priorities.items() if count and priority != NEVER_BELOW)
        return np.array(sorted(known), dtype=np.int64)

    def refresh(self, rows: NDArray[np.int64]) -> PodRequests:
        """Update the given node rows; return the columns, which are valid until the next call."""
        nodes = self._state.nodes
        if self._resources != len(nodes.resources.columns):
            self._resources = len(nodes.resources.columns)
            self._segments = _Segments((np.int64, 0), (np.float64, 0), (np.int64, self._resources), (np.int64, 0))
            self._priorities.clear()
        segments = self._segments
        for row in segments.stale(nodes, rows):
            there = [(pod, reservation) for pod, reservation in self._pods(row) if is_evictable(pod, reservation)]
            self._priorities.subtract(segments.columns[0][segments.first[row] : segments.last[row]].tolist())
            for number, (pod, reservation) in enumerate(there, start=segments.replace(row, len(there)).start):
                segments.columns[0][number], segments.columns[3][number] = _priorities(
                    self._disruption.with_group_priority(pod), reservation
                )
                segments.columns[1][number] = started(pod)
                segments.columns[2][number] = 0
                nodes.resources.charge_in(segments.columns[2][number], reservation.requests, reservation.pods, 1)
            self._priorities.update(segments.columns[0][segments.first[row] : segments.last[row]].tolist())
        return PodRequests(segments.first, segments.last, *segments.columns)

    def _pods(self, row: int) -> Iterator[tuple[Pod, Reservation]]:
        for reservation in self._state.reservations(self._state.nodes.name(row)):
            pod = self._state.pod(reservation.uid)
            if pod is not None:
                yield pod, reservation
