"""Several scorers together (C-03).

One scorer alone orders by its own scale. When a policy combines several, each is brought to 0 to 100 first, multiplied
by its weight, and added. A scorer of weight 0 is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.model import ScorePart
from vgpu_scheduler.scorers.base import NodeScorer, Workload
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class WeightedScorer:
    """A scorer with its share in the whole.

    Attributes
    ----------
    weight
        0 switches it off. Below 0 the order is inverted, as a negative ``binpack.weight`` does (D1-17).
    """

    scorer: NodeScorer
    weight: int = 1


class NodeRanking:
    """The scorers in force, compiled for one pod.

    Parameters
    ----------
    scorers
        In any order; those of weight 0 are left out. Without any all nodes are equal.
    workload
        The pod.
    """

    def __init__(self, scorers: Iterable[WeightedScorer], workload: Workload) -> None:
        weighted = [entry for entry in scorers if entry.weight]
        # Sums of floats depend on the order: the same scorers must give the same sum however they were listed.
        weighted.sort(key=lambda entry: entry.scorer.name)
        self._parts = [(entry, entry.scorer.compile(workload)) for entry in weighted]

    @property
    def epoch(self) -> int:
        """Raised when scores that were computed before hold no longer, whatever the nodes are."""
        return sum(compiled.epoch for _, compiled in self._parts)

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Return what ranks the nodes, highest first; shape (n,)."""
        if len(self._parts) == 1:
            entry, compiled = self._parts[0]
            factor = entry.scorer.direction * entry.weight
            return factor * compiled.score(state, rows, fit)
        total = np.zeros(rows.shape[0], dtype=np.float64)
        for entry, compiled in self._parts:
            total += entry.weight * entry.scorer.normalise(compiled.score(state, rows, fit))
        return total

    def explain(self, state: State, row: int, fit: FitColumns) -> tuple[ScorePart, ...]:
        """Return what each scorer says about one node."""
        rows = np.array([row], dtype=np.int64)
        alone = len(self._parts) == 1
        parts = []
        for entry, compiled in self._parts:
            raw = compiled.score(state, rows, fit)
            normalised = entry.scorer.normalise(raw)
            value = float(raw[0] if alone else normalised[0]) * entry.weight
            parts.append(ScorePart(entry.scorer.name, float(raw[0]), float(normalised[0]), entry.weight, value))
        return tuple(parts)
