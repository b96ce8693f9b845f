"""What still keeps a pod from nodes once all pods of lower priority are gone there, for all nodes together."""

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
from vgpu_scheduler.predicates import RejectionCodes
from vgpu_scheduler.state import State

__all__ = ["PerClass", "Refusals"]

_Kept = TypeVar("_Kept")

_NEVER: Final = -1
_BITS: Final = np.int64(1) << np.arange(REASONS, dtype=np.int64)
"""One for each reason of cards."""
_MOST_KEPT: Final = 32
"""Of how many classes it is kept what nodes say; each takes 12 bytes per node."""


class PerClass(Generic[_Kept]):
    """What is kept of the classes of pods, each with their priority, that were asked about last.

    Parameters
    ----------
    make
        Makes it for nodes and devices that are numbered in some way.
    most
        Of how many classes it is kept.
    """

    def __init__(self, make: Callable[..., _Kept], most: int) -> None:
        self._make = make
        self._most = most
        self._kept: OrderedDict[tuple[NodePart, int], tuple[tuple[int, ...], _Kept]] = OrderedDict()

    def of(self, preemptor: Preemptor, *numbering: int) -> _Kept:
        """Return what is kept for a pod; rows and devices that are numbered otherwise than before make it void."""
        key = preemptor.node, preemptor.pod.priority
        entry = self._kept.pop(key, None)
        if entry is None or entry[0] != numbering:
            entry = numbering, self._make(*numbering)
        self._kept[key] = entry
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return entry[1]


class _OfClass:
    """What nodes say to the pods of one class and priority."""

    def __init__(self, capacity: int) -> None:
        self.seen = np.full(capacity, _NEVER, dtype=np.int64)
        self.codes = np.zeros(capacity, dtype=np.int32)


class Refusals:
    """Says what single nodes say when nobody of lower priority is there; computed anew only where nodes changed.

    Host ports, nominated pods and what depends on other nodes have no part in it.

    Parameters
    ----------
    state
        What is known.
    levels
        Tells on which nodes a pod fits once others have ended.
    """

    def __init__(self, state: State, levels: PriorityLevels) -> None:
        self._state = state
        self._levels = levels
        self._rejections = RejectionCodes()
        self._no_victims = self._rejections.code(NO_VICTIMS_THERE)
        self._kept = PerClass(_OfClass, _MOST_KEPT)

    def count(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> dict[str, int]:
        """Count some nodes under each reason; a node counts once under each of its own.

        No victims are found where nobody of lower priority is, and where the pod would fit if all of these were gone:
        not all of them may be evicted, or others have a say.

        Parameters
        ----------
        rows
            Node rows on which victims were searched and not found, shape (n,).
        """
        kept = self._kept.of(preemptor, self._state.nodes.capacity)
        stale = np.empty_like(rows)
        count = stale_rows(rows, self._state.nodes.holders_version, kept.seen, stale)
        if count:
            kept.codes[stale[:count]] = self._codes(preemptor, stale[:count])
        counts = self._rejections.count(kept.codes[rows])
        return {reason.text: found for reason, found in counts.items()}

    def _codes(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the code of what each of some nodes says; shape (n,)."""
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
