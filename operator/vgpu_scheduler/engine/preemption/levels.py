"""Up to which priority pods have to be evicted on each node, for all nodes at once.

What pods below a priority hold is subtracted from the usage of many nodes at once, and the pod is fitted there. The
lower the priority, the less is free, so the lowest priority that suffices is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.equivalence import NodePart
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.occupants import OccupantTable, RequestTable
from vgpu_scheduler.engine.preemption.victims import Preemptor
from vgpu_scheduler.kernels import (
    LOWEST_PRIORITY,
    NO_PRIORITY,
    subtract_lower_priorities,
    summarize_possible_victims,
    update_consistency,
)
from vgpu_scheduler.state import HostPorts, InUse, State


class LowestPriorities(NamedTuple):
    """Nodes on which a pod fits without pods of low priority, as far as only these nodes' own usage matters.

    Attributes
    ----------
    rows
        Their rows, shape (m,).
    priority
        For each node, the lowest priority p such that the pod fits without all pods of priority p or lower; so at least
        one victim has priority p. It is ``NO_PRIORITY`` where the room of pods that cost nothing suffices. Shape (m,).
    start
        When the youngest pod of that priority was started; shape (m,).
    number
        How many pods of at most that priority there are, and so at most how many victims; shape (m,).
    """

    rows: NDArray[np.int64]
    priority: NDArray[np.int64]
    start: NDArray[np.float64]
    number: NDArray[np.int64]


class PriorityLevels:
    """Finds the lowest priority up to which evicting all pods of a node lets another pod fit there.

    Parameters
    ----------
    state
        The cluster's state.
    disruption
        Tells the priority that counts for a pod's eviction.
    """

    def __init__(self, state: State, disruption: GroupDisruption) -> None:
        self._state = state
        self._disruption = disruption
        self._requests = RequestTable(state, self._disruption)
        self._occupants: dict[str, OccupantTable] = {}

    def any_costless(self, rows: NDArray[np.int64]) -> bool:
        """Update the given node rows; tell whether any known pod costs nothing to evict."""
        return self._requests.any_costless(rows)

    def occupants(self, dialect: str) -> OccupantTable:
        """Return the table of what pods hold of the devices of a dialect."""
        if dialect not in self._occupants:
            self._occupants[dialect] = OccupantTable(self._state, dialect, self._disruption)
        return self._occupants[dialect]

    def lowest(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[LowestPriorities]:
        """Yield the nodes where a pod would fit without pods of lower priority, as far as only their own usage matters.

        First come the nodes where it suffices that terminating or unbound pods leave, then the nodes where evicting all
        pods of the lowest existing priority suffices (tried once), then all others, which callers often do not need.
        Pods that cost nothing count as gone on all nodes.

        Parameters
        ----------
        rows
            Node rows, shape (n,).
        """
        levels = self._requests.priorities(rows)
        levels = levels[levels < preemptor.pod.priority]
        if rows.size and self._requests.any_costless(rows):
            fits = self._fits(preemptor, rows, np.full(rows.shape[0], LOWEST_PRIORITY))
            enough = rows[fits]
            none = np.full(enough.shape[0], NO_PRIORITY)
            yield LowestPriorities(enough, none, np.full(enough.shape[0], np.inf), np.zeros_like(enough))
            rows = rows[~fits]
        if not levels.size or not rows.size:
            return
        fits = self._fits(preemptor, rows, np.full(rows.shape[0], levels[0] + 1))
        yield self._found(rows[fits], np.full(np.count_nonzero(fits), levels[0]))
        if levels.size > 1:
            yield self._bisected(preemptor, rows[~fits], levels[1:])

    def _bisected(self, preemptor: Preemptor, rows: NDArray[np.int64], levels: NDArray[np.int64]) -> LowestPriorities:
        """Return the nodes where evicting all pods up to one of the levels suffices, with the lowest such level."""
        lowest, highest = np.zeros(rows.shape[0], dtype=np.int64), np.full(rows.shape[0], levels.size - 1)
        fits = self._fits(preemptor, rows, levels[highest] + 1)
        rows, lowest, highest = rows[fits], lowest[fits], highest[fits]
        while (undecided := np.flatnonzero(lowest < highest)).size:
            middle = (lowest[undecided] + highest[undecided]) // 2
            fits = self._fits(preemptor, rows[undecided], levels[middle] + 1)
            highest[undecided[fits]], lowest[undecided[~fits]] = middle[fits], middle[~fits] + 1
        return self._found(rows, levels[highest])

    def _found(self, rows: NDArray[np.int64], priority: NDArray[np.int64]) -> LowestPriorities:
        starts, numbers = np.empty(rows.shape[0]), np.empty(rows.shape[0], dtype=np.int64)
        summarize_possible_victims(rows, priority, self._requests.refresh(rows), starts, numbers)
        return LowestPriorities(rows, priority, starts, numbers)

    def any_lower(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which nodes have pods of lower priority; shape (n,)."""
        pods, priority = self._requests.refresh(rows), preemptor.pod.priority
        before = np.concatenate([[0], np.cumsum((pods.priority < priority) | (pods.costless < priority))])
        found: NDArray[np.bool_] = before[pods.last[rows]] > before[pods.first[rows]]
        return found

    def without_lower(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NodePart:
        """Return the pod's node part, evaluated on nodes without all pods of lower priority.

        The next such question about any node part overwrites its columns.
        """
        return self._once_gone(preemptor, rows, np.full(rows.shape[0], preemptor.pod.priority))

    def _fits(self, preemptor: Preemptor, rows: NDArray[np.int64], below: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which nodes a pod fits without all pods below a priority per node; shape (n,)."""
        return self._once_gone(preemptor, rows, below).feasible[rows]

    def _once_gone(self, preemptor: Preemptor, rows: NDArray[np.int64], below: NDArray[np.int64]) -> NodePart:
        """Return the pod's node part, evaluated on nodes without all pods below a priority per node.

        Pods of lower priority than the preemptor that cost nothing to evict are left out, too.
        """
        state, dialect = self._state, preemptor.node.dialect
        matrix, requested = state.matrix(dialect), np.array(state.nodes.used.T, order="C")  # a copy
        live = matrix.columns
        columns = live._replace(used=live.used.copy(), consistent=live.consistent.copy())
        of_row = np.zeros(state.nodes.capacity, dtype=np.int64)
        of_row[rows] = below
        requests, occupants = self._requests.refresh(rows), self.occupants(dialect).refresh(rows)
        subtract_lower_priorities(rows, of_row, preemptor.pod.priority, requests, requested, occupants, columns)
        update_consistency(columns)
        # Host ports, and cards held by peers, are checked when the node itself is searched.
        with state.ignoring_peers():
            return preemptor.node.if_in_use_on(state, rows, InUse(requested.T, HostPorts(), {dialect: columns}))
