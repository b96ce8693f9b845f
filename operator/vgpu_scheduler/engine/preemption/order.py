"""The order in which nodes are searched for victims: by what these cost at least.

Pods that end together are taken for single ones here: what is counted of them on one node is no more than they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.levels import PriorityLevels
from vgpu_scheduler.engine.preemption.refusals import PerClass, Refusals
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

__all__ = ["SearchOrder"]

_NEVER: Final = -1
_MOST_KEPT: Final = 32
"""Of how many classes it is kept what victims cost at least; each takes 40 bytes per node."""
_ANYTHING: Final[Cost] = (0, NO_PRIORITY, 0, 0, -np.inf)
"""Less than any victims cost."""


class SearchOrder:
    """Says in which order nodes are searched; what it learns of a class is computed anew only where nodes changed.

    Parameters
    ----------
    state
        What is known.
    disruption
        Tells by which priority pods end.

    Attributes
    ----------
    refusals
        What nodes say when nobody of lower priority is there.
    """

    def __init__(self, state: State, disruption: GroupDisruption) -> None:
        self._state = state
        self._levels = PriorityLevels(state, disruption)
        self.refusals = Refusals(state, self._levels)
        self._kept = PerClass(_OfClass, _MOST_KEPT)
        self._scratch: dict[int, SetScratch] = {}

    def by_level(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[tuple[Cost, str]]:
        """Yield the nodes on which victims could be found with what they cost at least, the cheapest first.

        The second number of the cost is the priority up to which the end of all pods is enough, as far as the node
        alone has a say, together with those whose end costs nothing.

        Parameters
        ----------
        rows
            Nodes that keep the pod away for whatever is in use of them, shape (n,).
        """
        nodes = self._state.nodes
        kept = self._with_room_kept(rows)
        for row in kept:
            yield _ANYTHING, nodes.name(row)  # what is kept there may be open to it
        for found in self._levels.lowest(preemptor, rows[~np.isin(rows, kept)] if kept else rows):
            for number in np.lexsort((nodes.name_order[found.rows], -found.start, found.priority)).tolist():
                priority, start = int(found.priority[number]), float(found.start[number])
                least = NOTHING if priority == NO_PRIORITY else (0, priority, priority - LOWEST_PRIORITY, 1, -start)
                yield least, nodes.name(int(found.rows[number]))

    def _with_room_kept(self, rows: NDArray[np.int64]) -> list[int]:
        """Return those of some rows where room is kept for somebody, by name."""
        nodes, holds = self._state.nodes, self._state.holds
        kept = {row for name in holds.nodes() if (row := nodes.row(name)) is not None} if holds else set[int]()
        return sorted(kept.intersection(rows.tolist()), key=lambda row: int(nodes.name_order[row])) if kept else []

    def by_cards(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[tuple[Cost, str]]:
        """Yield the nodes on which victims could be found with what they cost at least, the cheapest first.

        Of equal costs the smallest name comes first.

        Parameters
        ----------
        preemptor
            A pod that takes one card.
        rows
            The nodes where cards alone keep it away, shape (n,).
        """
        nodes, kept = self._state.nodes, self._with_room_kept(rows)
        costs = self._costs(preemptor, rows)
        for row in kept:
            yield _ANYTHING, nodes.name(row)  # what is kept there may be open to it
        left = rows[costs.highest[rows] != NO_PRIORITY]
        left = left[~np.isin(left, kept)] if kept else left
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
    """What victims cost at least for the pods of one class and priority."""

    def __init__(self, capacity: int, _layout: int) -> None:
        self.seen = np.full(capacity, _NEVER, dtype=np.int64)
        highest, total, pods = (np.zeros(capacity, dtype=np.int64) for _ in range(3))
        self.costs = EvictionCosts(highest, total, pods, np.zeros(capacity))


def _wide(amounts: tuple[int, ...], dimensions: int) -> NDArray[np.int64]:
    wide = np.zeros(dimensions, dtype=np.int64)
    wide[: len(amounts)] = amounts
    return wide
