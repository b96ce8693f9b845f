"""kube-scheduler's scores of nodes by allocated resources, for policies that name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import FitColumns, Weights
from vgpu_scheduler.kube import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from vgpu_scheduler.scorers.base import CompiledScorer, ScoredPod
from vgpu_scheduler.scorers.binpack import DEFAULT_WEIGHTS
from vgpu_scheduler.state import State

_MOST: Final = 100
_ALWAYS: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""Resources that count even if the pod does not request them."""

Shape = tuple[tuple[int, int], ...]
"""Points (utilization in percent, score 0 to 10) of a piecewise linear function."""
BIN_PACKING: Final[Shape] = ((0, 0), (100, 10))
"""Fuller nodes score higher."""


class AllocationRule(Enum):
    """The preference; the values are the names of the scorers."""

    LEAST = "leastAllocated"
    """Nodes with much free (NodeResourcesFit, LeastAllocated)."""
    MOST = "mostAllocated"
    """Nodes with little free (NodeResourcesFit, MostAllocated)."""
    RATIO = "requestedToCapacityRatio"
    """Nodes by a function of the allocated fraction (NodeResourcesFit, RequestedToCapacityRatio)."""
    BALANCED = "balancedAllocation"
    """Nodes whose resources the pod makes more evenly allocated (NodeResourcesBalancedAllocation)."""


@dataclass(frozen=True, slots=True)
class AllocationScorer:
    """The mean score of a node's resources by their allocation with the pod, in whole points from 0 to 100.

    All numbers are those of kube-scheduler 1.36: divisions truncate; a resource that the node does not offer is left
    out, and so is one that the pod does not request, except cpu, memory and ephemeral storage. Containers without
    requests count as 100m and 200Mi, except for ``BALANCED``.

    Attributes
    ----------
    rule
        The preference.
    weights
        Weight per resource, 0 or more; ``cpu`` and ``memory`` have weight 1 by default. For ``BALANCED`` all resources
        with a weight count the same. Kept sorted by name, so that equal weights are equal scorers.
    shape
        For ``RATIO``: the function; kept sorted.
    """

    rule: AllocationRule
    weights: Weights = DEFAULT_WEIGHTS
    shape: Shape = BIN_PACKING

    direction = 1.0
    ranks_plain_pods = True

    def __post_init__(self) -> None:
        weights = {**dict(DEFAULT_WEIGHTS), **dict(self.weights)}
        object.__setattr__(self, "weights", tuple(sorted(weights.items())))
        object.__setattr__(self, "shape", tuple(sorted(self.shape)))

    @property
    def name(self) -> str:
        """The name that policies and explanations use."""
        return self.rule.value

    def compile(self, workload: ScoredPod) -> CompiledScorer:
        """Prepare the scorer for one pod."""
        weighed = [(name, weight) for name, weight in self.weights if weight and name != PODS]
        if self.rule is AllocationRule.BALANCED:
            return CompiledBalance(weighed, workload)
        return CompiledAllocation(_by_percent(self.rule, self.shape), weighed, workload, self.rule)

    def normalise(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores unchanged: they are between 0 and 100, and more is better."""
        return raw


class _Allocated(NamedTuple):
    """A resource of some nodes: allocatable, and allocated without and with the pod; shape (n,) each."""

    weight: int
    offered: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


class _Resources:
    """The resources that count for one pod.

    Parameters
    ----------
    weighed
        Names and weights above 0.
    workload
        The pod.
    whole
        Whether containers without requests count with default requests.
    """

    def __init__(self, weighed: list[tuple[str, int]], workload: ScoredPod, *, whole: bool) -> None:
        asked = dict(workload.requests)
        self._beyond = {CPU: 0, MEMORY: 1} if whole else {}
        for name, index in self._beyond.items():
            asked[name] = asked.get(name, 0) + workload.unrequested[index]
        self.asked = {name: asked.get(name, 0) for name, _ in weighed}
        self._weighed = [(name, weight) for name, weight in weighed if name in _ALWAYS or asked.get(name)]

    def at(self, state: State, rows: NDArray[np.int64]) -> Iterator[_Allocated]:
        """Yield the allocation of each resource on some nodes."""
        nodes = state.nodes
        beyond = state.unrequested.at(rows) if self._beyond else None
        for name, weight in self._weighed:
            column = nodes.resources.columns.get(name)
            if column is None:  # no node has ever offered it
                continue
            offered, used = nodes.allocatable.T[column].take(rows), nodes.used.T[column].take(rows)
            if beyond is not None and name in self._beyond:
                used += beyond[self._beyond[name]]
            yield _Allocated(weight, offered, used, used + self.asked[name])


class CompiledAllocation(CompiledScorer):
    """The weighted mean of the scores of the resources, for all rules but ``BALANCED``.

    Parameters
    ----------
    table
        The score by allocated percentage, for ``RATIO``; else None.
    weighed, workload
        The resources with their weights, and the pod.
    rule
        The preference.
    """

    def __init__(
        self,
        table: NDArray[np.int64] | None,
        weighed: list[tuple[str, int]],
        workload: ScoredPod,
        rule: AllocationRule,
    ) -> None:
        self._table = table
        self._least = rule is AllocationRule.LEAST
        self._resources = _Resources(weighed, workload, whole=True)

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes in whole points from 0 to 100."""
        del fit
        total = np.zeros(rows.shape[0], dtype=np.int64)
        weights = np.zeros(rows.shape[0], dtype=np.int64)
        for found in self._resources.at(state, rows):
            points, counts = self._points(found)
            total += np.where(counts, points * found.weight, 0)
            weights += np.where(counts, found.weight, 0)
        weights = np.maximum(weights, 1)
        mean = np.floor(total / weights + 0.5) if self._table is not None else total // weights
        return mean.astype(np.float64)

    def _points(self, found: _Allocated) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the score of each node by one resource, and the nodes where it counts."""
        there = found.offered > 0
        offered, used = np.maximum(found.offered, 1), np.minimum(found.after, found.offered)
        if self._table is not None:
            points = self._table.take(np.where(there, used * _MOST // offered, 0))
            return points, there & (points > 0)
        return (offered - used if self._least else used) * _MOST // offered, there


class CompiledBalance(CompiledScorer):
    """How much more evenly the resources of a node are allocated with the pod; 75 if the pod changes nothing.

    Parameters
    ----------
    weighed, workload
        The resources, and the pod. For a pod that requests none of them all nodes score 0.
    """

    def __init__(self, weighed: list[tuple[str, int]], workload: ScoredPod) -> None:
        self._resources = _Resources(weighed, workload, whole=False)

    def score(self, state: State, rows: NDArray[np.int64], fit: FitColumns) -> NDArray[np.float64]:
        """Score nodes in whole points from 50 to 100."""
        del fit
        if not any(self._resources.asked.values()):
            return np.zeros(rows.shape[0], dtype=np.float64)
        found = list(self._resources.at(state, rows))
        there = [each.offered > 0 for each in found]
        after = _evenness([(each.after, each.offered) for each in found], there, rows.shape[0])
        before = _evenness([(each.before, each.offered) for each in found], there, rows.shape[0])
        points = 50 + (50 + after - before) // 2
        return points.astype(np.float64)


def _evenness(
    allocated: list[tuple[NDArray[np.int64], NDArray[np.int64]]], there: list[NDArray[np.bool_]], size: int
) -> NDArray[np.int64]:
    """Return 100 minus the standard deviation of the allocated percentages, shape (size,)."""
    shares = [
        np.divide(np.minimum(used, offered), offered, out=np.zeros(size), where=counts)
        for (used, offered), counts in zip(allocated, there, strict=True)
    ]
    number = np.zeros(size, dtype=np.int64)
    total: NDArray[np.float64] = np.zeros(size)
    squares: NDArray[np.float64] = np.zeros(size)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for share, counts in zip(shares, there, strict=True):
        number += counts
        total += share
        least, most = np.where(counts, np.minimum(least, share), least), np.where(counts, np.maximum(most, share), most)
    mean = total / np.maximum(number, 1)
    for share, counts in zip(shares, there, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
    two = np.where(number == 2, (most - least) / 2, 0.0)
    deviation = np.where(number > 2, np.sqrt(squares / np.maximum(number, 1)), two)
    return ((1 - deviation) * _MOST).astype(np.int64)


def _by_percent(rule: AllocationRule, shape: Shape) -> NDArray[np.int64] | None:
    """Tabulate the function of ``RATIO`` for 0 to 100 percent, in points of 0 to 100."""
    if rule is not AllocationRule.RATIO:
        return None
    points = [(utilization, score * _MOST // 10) for utilization, score in shape]
    return np.array([_between(points, percent) for percent in range(_MOST + 1)], dtype=np.int64)


def _between(points: list[tuple[int, int]], percent: int) -> int:
    """Return the score at a percentage, truncated towards the score of the previous point."""
    left = points[0]
    for right in points:
        if percent <= right[0]:
            width = right[0] - left[0]
            rise = abs(right[1] - left[1]) * (percent - left[0]) // width if width else right[1] - left[1]
            return left[1] + (rise if right[1] > left[1] else -rise) if width else right[1]
        left = right
    return left[1]
