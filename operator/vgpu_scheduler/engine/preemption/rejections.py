"""Why nodes reject a pod even without all pods of lower priority, for all nodes at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.engine.nominated import card_rejection
from vgpu_scheduler.engine.preemption.candidates import NO_VICTIMS_THERE
from vgpu_scheduler.engine.preemption.levels import PriorityLevels
from vgpu_scheduler.engine.preemption.victims import Preemptor
from vgpu_scheduler.kernels import REASONS, stale_rows
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.predicates import Reason, RejectionCodes
from vgpu_scheduler.state import State

_Kept = TypeVar("_Kept")

_NEVER: Final = -1
_BITS: Final = np.int64(1) << np.arange(REASONS, dtype=np.int64)
"""One bit for each card reason."""
_MOST_KEPT: Final = 32
"""Number of classes for which rejections are kept; each takes 12 bytes per node."""


class PerClass(Generic[_Kept]):
    """A cache of values by class and priority of pods; the least recently used is evicted.

    Parameters
    ----------
    make
        Makes a value for a numbering of nodes and devices.
    most
        Maximum number of values.
    """

    def __init__(self, make: Callable[..., _Kept], most: int) -> None:
        self._make = make
        self._most = most
        self._kept: OrderedDict[tuple[NodePart, int], tuple[tuple[int, ...], _Kept]] = OrderedDict()

    def of(self, preemptor: Preemptor, *numbering: int) -> _Kept:
        """Return the value for a pod; a changed numbering of rows or devices makes it void."""
        key = preemptor.node, preemptor.pod.priority
        entry = self._kept.pop(key, None)
        if entry is None or entry[0] != numbering:
            entry = numbering, self._make(*numbering)
        self._kept[key] = entry
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return entry[1]


class _OfClass:
    """The rejections of nodes for the pods of one class and priority."""

    def __init__(self, capacity: int) -> None:
        self.seen = np.full(capacity, _NEVER, dtype=np.int64)
        self.codes = np.zeros(capacity, dtype=np.int32)


class PreemptionRejections:
    """Says why nodes reject a pod even without the pods of lower priority; updated only where nodes changed.

    Host ports, nominated pods and constraints that depend on other nodes are not considered.

    Parameters
    ----------
    state
        The cluster's state.
    levels
        Tells on which nodes a pod fits without others.
    """

    def __init__(self, state: State, levels: PriorityLevels) -> None:
        self._state = state
        self._levels = levels
        self._rejections = RejectionCodes()
        self._no_victims = self._rejections.code(NO_VICTIMS_THERE)
        self._kept = PerClass(_OfClass, _MOST_KEPT)

    def count(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> dict[Reason | CardReason, int]:
        """Count nodes by reason; a node counts once under each of its reasons.

        A node has no victims if it has no pod of lower priority, or if the pod would fit without all of these: then
        some of them may not be evicted, or other constraints matter.

        Parameters
        ----------
        rows
            Node rows on which victims were searched for and not found, shape (n,).
        """
        kept = self._kept.of(preemptor, self._state.nodes.capacity)
        stale = np.empty_like(rows)
        count = stale_rows(rows, self._state.nodes.holders_version, kept.seen, stale)
        if count:
            kept.codes[stale[:count]] = self._codes(preemptor, stale[:count])
        return self._rejections.count(kept.codes[rows])

    def _codes(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the rejection code of each node, shape (n,)."""
        codes = np.full(rows.shape[0], self._no_victims, dtype=np.int32)
        crowded = np.flatnonzero(self._levels.any_lower(preemptor, rows))
        if not crowded.size:
            return codes
        rows = rows[crowded]
        asked = self._levels.without_lower(preemptor, rows)
        by_filter, known = asked.rejected[rows], asked.predicates.rejections
        for code in np.unique(by_filter[by_filter != RejectionCodes.PASSES]).tolist():
            codes[crowded[by_filter == code]] = self._rejections.code(known[code])
        short = np.flatnonzero((by_filter == RejectionCodes.PASSES) & ~asked.feasible[rows])
        lacking = (asked.fit.counts[rows[short]] > 0) @ _BITS
        for word in np.unique(lacking).tolist():
            codes[crowded[short[lacking == word]]] = self._rejections.code(card_rejection(word & _BITS))
        return codes
