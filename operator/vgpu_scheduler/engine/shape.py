"""Pod shapes: pods that ask for the same are decided from the same columns.

Replicas share their scheduling-relevant spec and annotations. What a shape comes to on each node (filters, cards,
score) is kept by node row and computed anew only where the node's version has moved, so that a decision costs what
changed, not what exists.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, FitColumns
from vgpu_scheduler.kernels import stale_rows
from vgpu_scheduler.model import PodClaims
from vgpu_scheduler.policy import ResolvedPolicy
from vgpu_scheduler.predicates import CompiledPredicates
from vgpu_scheduler.scorers import NodeRanking
from vgpu_scheduler.state import State

_SHAPES = 128
"""How many shapes are remembered; one costs about 70 bytes per node."""

ShapeKey = tuple[object, ...]


@dataclass(slots=True)
class Shape:
    """What pods of one shape ask for, and what that comes to on each node row.

    Attributes
    ----------
    refusal
        Why no pod of this shape can be placed anywhere; nothing else is set then.
    allocator
        None for pods without device claims.
    ranking
        What orders the nodes that fit.
    warnings
        What of the pod's wishes is not followed, and why.
    rejected
        Bits of the Kubernetes filters, by node row; 0 where all pass.
    score
        What the ranking says, by node row; meaningless where the pod does not fit.
    """

    policy: ResolvedPolicy | None = None
    claims: PodClaims = ()
    predicates: CompiledPredicates | None = None
    allocator: Allocator | None = None
    ranking: NodeRanking | None = None
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    rejected: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    fit: FitColumns = field(default_factory=lambda: FitColumns.empty(0))
    score: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, dtype=np.float64))
    feasible: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    _seen: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _stale: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def refresh(self, state: State, rows: NDArray[np.int64]) -> int:
        """Bring the columns up to date for the given node rows; return how many had to be computed."""
        if self._seen.shape[0] < state.nodes.capacity:
            self._grow(state.nodes.capacity)
        if self._stale.shape[0] < rows.shape[0]:
            self._stale = np.zeros(state.nodes.capacity, dtype=np.int64)
        count = stale_rows(rows, state.nodes.version, self._seen, self._stale)
        if count:
            try:
                self._evaluate(state, self._stale[:count])
            except BaseException:
                self._seen[rows] = -1  # half of an evaluation must not pass for one
                raise
        return count

    def _grow(self, rows: int) -> None:
        self.rejected = np.zeros(rows, dtype=np.uint64)
        self.fit = FitColumns.empty(rows)
        self.score = np.zeros(rows, dtype=np.float64)
        self.feasible = np.zeros(rows, dtype=np.bool_)
        self._seen = np.full(rows, -1, dtype=np.int64)

    def _evaluate(self, state: State, rows: NDArray[np.int64]) -> None:
        assert self.predicates is not None
        assert self.ranking is not None
        rejected = self.predicates.evaluate(rows)
        self.rejected[rows] = rejected
        passing = rows if not rejected.any() else rows[rejected == 0]
        self.feasible[rows] = False
        self.fit.counts[rows] = 0
        if not passing.shape[0]:
            return
        if self.allocator is not None:
            self.allocator.fit(state.devices, passing, self.fit)
            passing = passing[self.fit.fits[passing]]
        self.feasible[passing] = True
        if passing.shape[0]:
            self.score[passing] = self.ranking.score(state, passing, self.fit)


class ShapeCache:
    """Remembers the most recently used shapes.

    Parameters
    ----------
    size
        How many.
    """

    def __init__(self, size: int = _SHAPES) -> None:
        self._size = size
        self._shapes: OrderedDict[ShapeKey, Shape] = OrderedDict()

    def get(self, key: ShapeKey, make: Callable[[], Shape]) -> Shape:
        """Return the shape of this key, made now if it is not remembered."""
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = make()
            if len(self._shapes) > self._size:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        return shape
