"""The order in which nodes are searched for victims: by a lower bound of their cost.

Pods that end together are counted one by one here: the part of a unit on one node costs no more than the whole unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.levels import PriorityLevels
from vgpu_scheduler.engine.preemption.rejections import PerClass, PreemptionRejections
from vgpu_scheduler.engine.preemption.victims import NOTHING, Cost, Preemptor
from vgpu_scheduler.kernels import (
    LOWEST_PRIORITY,
    MOST_SETS,
    NO_PRIORITY,
    CardAsk,
    DeviceColumns,
    EvictionCosts,
    Occupants,
    SetScratch,
    cheapest_at_least,
    stale_rows,
    subtract_costless,
    where_costless_suffice,
)
from vgpu_scheduler.state import State

_NEVER: Final = -1
_MOST_KEPT: Final = 32
"""Number of classes for which lower bounds are kept; each takes 40 bytes per node."""
_ANYTHING: Final[Cost] = (0, NO_PRIORITY, 0, 0, -np.inf)
"""Less than the cost of any victims."""


class SearchOrder:
    """Orders nodes for the search; the lower bounds of a class are updated only where nodes changed.

    Parameters
    ----------
    state
        The cluster's state.
    disruption
        Tells the priority that counts for a pod's eviction.

    Attributes
    ----------
    rejections
        Why nodes reject a pod even without the pods of lower priority.
    """

    def __init__(self, state: State, disruption: GroupDisruption) -> None:
        self._state = state
        self._levels = PriorityLevels(state, disruption)
        self.rejections = PreemptionRejections(state, self._levels)
        self._kept = PerClass(_OfClass, _MOST_KEPT)
        self._scratch: dict[int, SetScratch] = {}

    def by_level(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[tuple[Cost, str]]:
        """Yield the nodes that may have victims with a lower bound of their cost.

        The nodes where the lowest priorities suffice come first; of these, the nodes with the fewest pods up to that
        priority, since fewer pods can be victims there.

        The second number of the cost is the priority up to which evicting all pods suffices, together with the pods
        that cost nothing, as far as only the node's own usage matters.

        Parameters
        ----------
        rows
            Nodes that reject the pod because of their usage, shape (n,).
        """
        nodes = self._state.nodes
        held = self._with_holds(rows)
        for row in held:
            yield _ANYTHING, nodes.name(row)  # the holds there may be open to the pod
        for found in self._levels.lowest(preemptor, rows[~np.isin(rows, held)] if held else rows):
            keys = (nodes.name_order[found.rows], -found.start, found.number, found.priority)
            for number in np.lexsort(keys).tolist():
                priority, start = int(found.priority[number]), float(found.start[number])
                least = NOTHING if priority == NO_PRIORITY else (0, priority, priority - LOWEST_PRIORITY, 1, -start)
                yield least, nodes.name(int(found.rows[number]))

    def _with_holds(self, rows: NDArray[np.int64]) -> list[int]:
        """Return those of the rows with holds, by node name."""
        nodes, holds = self._state.nodes, self._state.holds
        held = {row for name in holds.nodes() if (row := nodes.row(name)) is not None} if holds else set[int]()
        return sorted(held.intersection(rows.tolist()), key=lambda row: int(nodes.name_order[row])) if held else []

    def by_cards(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[tuple[Cost, str]]:
        """Yield the nodes that may have victims with a lower bound of their cost, the cheapest first.

        Ties go to the smallest name.

        Parameters
        ----------
        preemptor
            A pod that takes one card.
        rows
            The nodes where only cards reject it, shape (n,).
        """
        nodes, held = self._state.nodes, self._with_holds(rows)
        costs = self._costs(preemptor, rows)
        for row in held:
            yield _ANYTHING, nodes.name(row)  # the holds there may be open to the pod
        left = rows[costs.highest[rows] != NO_PRIORITY]
        left = left[~np.isin(left, held)] if held else left
        while left.size:
            row = self._cheapest(costs, left)
            cost = 0, int(costs.highest[row]), int(costs.total[row]), int(costs.pods[row]), -float(costs.start[row])
            yield cost, nodes.name(row)
            left = left[left != row]

    def _cheapest(self, costs: EvictionCosts, rows: NDArray[np.int64]) -> int:
        for column in (costs.highest, costs.total, costs.pods, -costs.start, self._state.nodes.name_order):
            values = column[rows]
            rows = rows[values == values.min()]
        return int(rows[0])

    def _costs(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> EvictionCosts:
        part, state = preemptor.node, self._state
        allocator, matrix = part.allocator, state.matrix(part.dialect)
        assert allocator is not None
        occupants = self._levels.occupants(part.dialect).refresh(rows)
        kept = self._kept.of(preemptor, state.nodes.capacity, matrix.layout)
        stale = np.empty_like(rows)
        count = stale_rows(rows, state.nodes.holders_version, kept.seen, stale)
        if count:
            need, dimensions = allocator.need(), matrix.dimensions
            ask = CardAsk(
                preemptor.pod.priority,
                _wide(need.amounts if need else (), dimensions),
                _wide(need.percent if need else (), dimensions),
                allocator.may_use(matrix),
            )
            scratch = self._scratch.get(dimensions)
            if scratch is None:
                sets = 2**MOST_SETS
                scratch = SetScratch(np.zeros((sets, dimensions), dtype=np.int64), np.zeros(sets, dtype=np.int64))
                self._scratch[dimensions] = scratch
            self._write_costs(matrix.columns, occupants, ask, stale[:count], scratch, kept.costs)
        return kept.costs

    def _write_costs(
        self,
        columns: DeviceColumns,
        occupants: Occupants,
        ask: CardAsk,
        rows: NDArray[np.int64],
        scratch: SetScratch,
        into: EvictionCosts,
    ) -> None:
        if not self._levels.any_costless(rows):
            cheapest_at_least(columns, occupants, ask, rows, scratch, into)
            return
        columns = columns._replace(used=columns.used.copy())
        subtract_costless(rows, occupants, ask, columns)
        cheapest_at_least(columns, occupants, ask, rows, scratch, into)
        where_costless_suffice(columns, occupants, ask, rows, into)


class _OfClass:
    """Lower bounds of the cost of victims for the pods of one class and priority."""

    def __init__(self, capacity: int, _layout: int) -> None:
        self.seen = np.full(capacity, _NEVER, dtype=np.int64)
        highest, total, pods = (np.zeros(capacity, dtype=np.int64) for _ in range(3))
        self.costs = EvictionCosts(highest, total, pods, np.zeros(capacity))


def _wide(amounts: tuple[int, ...], dimensions: int) -> NDArray[np.int64]:
    wide = np.zeros(dimensions, dtype=np.int64)
    wide[: len(amounts)] = amounts
    return wide
