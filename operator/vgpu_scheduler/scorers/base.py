"""The scorer interface: a value that ranks nodes, its form compiled for one pod, and the combination of several.

A single scorer ranks by its raw scores. If a policy combines several, their scores are normalised to 0 to 100,
multiplied by their weights, and summed. A scorer of weight 0 is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns, Weights, pod_demand
from vgpu_scheduler.kernels import PodDemand
from vgpu_scheduler.model import DeviceResource, PodClaims, ScorePart
from vgpu_scheduler.state import DeviceMatrix, State

# Larger claims fit nowhere; the limits keep sums within int64.
_MOST_CARDS = 1 << 16
_MOST_AMOUNT = 1 << 40


def checked_weights(weights: Weights, defaults: Weights = ()) -> Weights:
    """Return weights sorted by resource name, completed by defaults.

    Raises
    ------
    ValueError
        If a weight is negative or a resource is given twice.
    """
    if len({name for name, _ in weights}) < len(weights):
        raise ValueError(f"a resource has two weights in {weights}")
    if negative := sorted(name for name, weight in weights if weight < 0):
        raise ValueError(f"the weight of {negative[0]} is negative")
    return tuple(sorted({**dict(defaults), **dict(weights)}.items()))


def bounded_demand(claims: PodClaims, devices: DeviceMatrix) -> PodDemand:
    """Return a pod's claims for the scorers' kernels, limited so that no sum overflows int64."""
    demand = pod_demand(claims, devices)
    return demand._replace(
        amounts=np.minimum(demand.amounts, _MOST_AMOUNT), wanted=np.minimum(demand.wanted, _MOST_CARDS)
    )


@dataclass(frozen=True, slots=True)
class ScoredPod:
    """The properties of a pod that scorers read.

    Attributes
    ----------
    requests
        Kubernetes resources of the whole pod, cpu in milli and all else in whole units.
    claims
        Its claims on devices.
    resources
        The devices and dimensions of resource names, by the dialect. A name that a node offers in its allocatable
        amounts is counted there instead.
    dialect
        The dialect of the devices; empty for the one that is listed first.
    unrequested
        The cpu (milli) and memory (bytes) that some scorers add for containers that request none.
    images
        The images of its containers.
    containers
        The number of its containers.
    """

    requests: Mapping[str, int]
    claims: PodClaims
    resources: Mapping[str, DeviceResource] = field(default_factory=dict)
    dialect: str = ""
    unrequested: tuple[int, int] = (0, 0)
    images: tuple[str, ...] = ()
    containers: int = 1


class CompiledScorer(Protocol):
    """A scorer for one pod."""

    def epoch(self, state: State) -> int:
        """Return a number that rises when scores change for reasons other than the node, such as new prices."""
        del state
        return 0

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes on the scorer's own scale.

        Parameters
        ----------
        state
            The state; the pod is not in it.
        rows
            Node rows, shape (n,).
        fit
            The outcome of the fit, already written at these rows.

        Returns
        -------
        NDArray[float64], shape (n,)
        """

    def terms(self, state: State, row: int, fit: FitColumns) -> tuple[tuple[str, float], ...]:
        """Return the named terms of one node's score, in points; empty if the scorer has none.

        It must be called right after :meth:`score` for this node alone.
        """
        del state, row, fit
        return ()


class NodeScorer(Protocol):
    """A rule that ranks nodes; a value that can be compared and hashed."""

    @property
    def name(self) -> str:
        """The name that policies and explanations use."""

    @property
    def direction(self) -> float:
        """+1 when the highest raw score wins, -1 when the lowest does."""

    @property
    def ranks_plain_pods(self) -> bool:
        """Whether it also scores nodes for pods without device claims."""

    def compile(self, workload: ScoredPod) -> CompiledScorer:
        """Prepare the scorer for one pod."""

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise raw scores to 0 to 100, where more is better."""


@dataclass(frozen=True, slots=True)
class WeightedScorer:
    """A scorer with its weight.

    Attributes
    ----------
    weight
        0 switches it off; a negative weight inverts the order, like a negative ``binpack.weight``.
    """

    scorer: NodeScorer
    weight: int = 1


class NodeRanking:
    """The scorers in force, compiled for one pod.

    Parameters
    ----------
    scorers
        In any order; those of weight 0 are left out. Without any, all nodes tie.
    workloads
        The pod as scorers see it; for a pod without device claims one entry per dialect.
    """

    def __init__(self, scorers: Iterable[WeightedScorer], *workloads: ScoredPod) -> None:
        weighted = [entry for entry in scorers if entry.weight]
        # Float sums depend on the order; sorting makes the sum independent of how the scorers are listed.
        weighted.sort(key=lambda entry: entry.scorer.name)
        self._parts = [(entry, _compiled(entry.scorer, workloads)) for entry in weighted]

    def epoch(self, state: State) -> int:
        """Return a number that rises when earlier scores become stale for reasons other than the nodes."""
        return sum(compiled.epoch(state) for _, compiled in self._parts)

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Return the ranking scores of the nodes, the highest is best; shape (n,)."""
        if len(self._parts) == 1:
            entry, compiled = self._parts[0]
            factor = entry.scorer.direction * entry.weight
            return factor * compiled.score(state, rows, fit)
        total = np.zeros(rows.shape[0], dtype=np.float64)
        for entry, compiled in self._parts:
            total += entry.weight * entry.scorer.normalise(compiled.score(state, rows, fit))
        return total

    def points(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise the result of :meth:`score` to 0 to 100, more is better; the order is kept, but may get ties."""
        weights = [entry.weight for entry, _ in self._parts]
        whole = sum(map(abs, weights))
        if not whole:
            return np.full(scores.shape[0], 100.0)
        if len(weights) == 1:
            scorer = self._parts[0][0].scorer
            scores = weights[0] * scorer.normalise(scores / (scorer.direction * weights[0]))
        # A negative weight inverts its scorer: the worst node gets all its points.
        turned = -100.0 * sum(weight for weight in weights if weight < 0)
        points: NDArray[np.float64] = np.clip((scores + turned) / whole, 0.0, 100.0)
        return points

    def explain(self, state: State, row: int, fit: FitColumns) -> tuple[ScorePart, ...]:
        """Return each scorer's score of one node, each followed by its named terms."""
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


def _compiled(scorer: NodeScorer, workloads: Sequence[ScoredPod]) -> CompiledScorer:
    if len(workloads) == 1:
        return scorer.compile(workloads[0])
    return _OfSeveralDialects([(workload.dialect, scorer.compile(workload)) for workload in workloads])


class _OfSeveralDialects(CompiledScorer):
    """A scorer for a pod without device claims, where nodes have devices of several dialects.

    A node is scored by the dialect of its devices; if it has devices of several dialects the lowest score counts. Nodes
    without devices are scored by the dialect that is listed first.

    Parameters
    ----------
    compiled
        The scorer for the devices of each dialect.
    """

    def __init__(self, compiled: Sequence[tuple[str, CompiledScorer]]) -> None:
        self._compiled = compiled

    def epoch(self, state: State) -> int:
        """Return the sum of all epochs."""
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
