"""The scorer for pods without device claims."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.kube import CPU, MEMORY
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod
from vgpu_scheduler.state import State

_BARE = 1000.0


@dataclass(frozen=True, slots=True)
class PlainScorer(CompiledScorer):
    """Prefers nodes without devices, then the least allocated node.

    Raw scores are the mean of the free percentages of cpu and memory, plus 1000 for nodes without devices.
    """

    name = "plain"
    direction = 1.0
    ranks_plain_pods = True

    def compile(self, workload: ScoredPod) -> PlainScorer:
        """Return the scorer itself: it does not depend on the pod."""
        del workload
        return self

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes by what is free before the pod."""
        del fit
        nodes = state.nodes
        free = np.zeros(rows.shape[0], dtype=np.float64)
        for resource in (CPU, MEMORY):
            column = nodes.resources.column(resource)
            allocatable = nodes.allocatable[rows, column].astype(np.float64)
            unused = allocatable - nodes.used[rows, column]
            free += np.divide(unused, allocatable, out=np.zeros_like(free), where=allocatable > 0)
        bare = np.ones(rows.shape[0], dtype=np.bool_)
        for devices in state.matrices.values():
            columns = devices.columns
            bare &= columns.first[rows] == columns.last[rows]
        score: NDArray[np.float64] = _BARE * bare + 50.0 * np.clip(free, 0.0, None)
        return score

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise 0 to 1100 to 0 to 100."""
        return np.minimum(raw / ((_BARE + 100.0) / 100.0), 100.0)
