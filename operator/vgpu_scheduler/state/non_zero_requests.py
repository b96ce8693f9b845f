"""Default requests of containers that request no cpu or memory (kube-scheduler's non-zero requests), per node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.reservation_ledger import ReservationLedger

_NEVER = -1


class NonZeroRequests:
    """Sums per node of ``PodSpec.unrequested``, recomputed on demand for nodes that changed.

    Parameters
    ----------
    nodes
        The nodes.
    ledger
        The reservations on them.
    pod_of
        Returns a pod by its UID.
    """

    def __init__(self, nodes: NodeTable, ledger: ReservationLedger, pod_of: Callable[[str], Pod]) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._pod_of = pod_of
        self._sums = np.zeros((2, 0), dtype=np.int64)
        self._seen = np.zeros(0, dtype=np.int64)

    def at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return cpu (milli) and memory (bytes) of live rows, shape (2, n)."""
        more = self._nodes.capacity - self._seen.shape[0]
        if more:
            self._sums = np.pad(self._sums, ((0, 0), (0, more)))
            self._seen = np.pad(self._seen, (0, more), constant_values=_NEVER)
        version = self._nodes.version
        for row in rows[version[rows] != self._seen[rows]].tolist():
            found = [self._pod_of(held.uid).spec.unrequested for held in self._ledger.on(self._nodes.name(row))]
            self._sums[:, row] = np.array(found, dtype=np.int64).sum(axis=0) if found else 0
            self._seen[row] = version[row]
        sums: NDArray[np.int64] = self._sums[:, rows]
        return sums
