"""Several scorers together (C-03).

One scorer alone orders by its own scale. When a policy combines several, each is brought to 0 to 100 first, multiplied
by its weight, and added. A scorer of weight 0 is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns
from vgpu_scheduler.model import ScorePart
from vgpu_scheduler.scorers.base import CompiledScorer, NodeScorer, Workload
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
    workloads
        The pod, as the scorers are to see it; of one without device claims once for each dialect whose devices nodes
        may have.
    """

    def __init__(self, scorers: Iterable[WeightedScorer], *workloads: Workload) -> None:
        weighted = [entry for entry in scorers if entry.weight]
        # Sums of floats depend on the order: the same scorers must give the same sum however they were listed.
        weighted.sort(key=lambda entry: entry.scorer.name)
        self._parts = [(entry, _compiled(entry.scorer, workloads)) for entry in weighted]

    def epoch(self, state: State) -> int:
        """Return a number that rises when scores hold no longer that were computed before, whatever the nodes are."""
        return sum(compiled.epoch(state) for _, compiled in self._parts)

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

    def points(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring what :meth:`score` returned to 0 to 100, where more is better; the order stays, or becomes equal."""
        weights = [entry.weight for entry, _ in self._parts]
        whole = sum(map(abs, weights))
        if not whole:
            return np.full(scores.shape[0], 100.0)
        if len(weights) == 1:
            scorer = self._parts[0][0].scorer
            scores = weights[0] * scorer.normalise(scores / (scorer.direction * weights[0]))
        # A weight below 0 turns its scorer around, so that its worst is worth all of its points.
        turned = -100.0 * sum(weight for weight in weights if weight < 0)
        points: NDArray[np.float64] = np.clip((scores + turned) / whole, 0.0, 100.0)
        return points

    def explain(self, state: State, row: int, fit: FitColumns) -> tuple[ScorePart, ...]:
        """Return what each scorer says about one node, and after it what that is made of, as far as it can tell."""
        rows = np.array([row], dtype=np.int64)
        alone = len(self._parts) == 1
        parts = []
        for entry, compiled in self._parts:
            raw = compiled.score(state, rows, fit)
            normalised = entry.scorer.normalise(raw)
            value = float(raw[0] if alone else normalised[0]) * entry.weight
            name = entry.scorer.name
            parts.append(ScorePart(name, float(raw[0]), float(normalised[0]), entry.weight, value))
            for term, points in compiled.terms(state, row, fit):
                parts.append(ScorePart(f"{name}/{term}", points, points, 1, points, within=name))
        return tuple(parts)


def _compiled(scorer: NodeScorer, workloads: Sequence[Workload]) -> CompiledScorer:
    if len(workloads) == 1:
        return scorer.compile(workloads[0])
    return _OfSeveralDialects([(workload.dialect, scorer.compile(workload)) for workload in workloads])


class _OfSeveralDialects(CompiledScorer):
    """A scorer for a pod without device claims, where nodes have devices of several dialects.

    A node is scored by the devices that it has; where it has some of several dialects the lowest score counts. Nodes
    without devices are scored as by the dialect that is listed first.

    Parameters
    ----------
    compiled
        The scorer for the devices of each dialect.
    """

    def __init__(self, compiled: Sequence[tuple[str, CompiledScorer]]) -> None:
        self._compiled = compiled

    def epoch(self, state: State) -> int:
        """Return the sum of all."""
        return sum(scorer.epoch(state) for _, scorer in self._compiled)

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Return the lowest score of each node; shape (n,)."""
        scores = np.full(rows.shape[0], np.inf)
        for dialect, scorer in self._compiled:
            columns = state.matrix(dialect).columns
            there = columns.last[rows] > columns.first[rows]
            if there.any():
                scores[there] = np.minimum(scores[there], scorer.score(state, rows[there], fit))
        bare = np.isinf(scores)
        if bare.any():
            scores[bare] = self._compiled[0][1].score(state, rows[bare], fit)
        return scores

    def terms(self, state: State, row: int, fit: FitColumns) -> tuple[tuple[str, float], ...]:
        """Return the terms of the lowest score."""
        rows = np.array([row], dtype=np.int64)
        score = self.score(state, rows, fit)
        for dialect, scorer in self._compiled:
            columns = state.matrix(dialect).columns
            if columns.last[row] > columns.first[row] and scorer.score(state, rows, fit) == score:
                return scorer.terms(state, row, fit)
        return ()
