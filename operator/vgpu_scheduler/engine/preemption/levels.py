"""How high the priority of pods is at least that have to end on each node, for all nodes together.

What pods below a priority hold is taken off what is in use of many nodes at once, and the pod is fitted there. The
lower the priority, the less is free, so the lowest one that is enough is found by bisection.
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
    explain_devices,
    latest_starts,
    subtract_lower_priorities,
)
from vgpu_scheduler.state import HostPorts, InUse, State

__all__ = ["PriorityLevels"]


class LowestPriorities(NamedTuple):
    """Nodes on which a pod fits once others have ended, as far as these nodes alone have a say.

    Attributes
    ----------
    rows
        Their rows, shape (m,).
    priority
        For each node, the lowest priority p such that the pod fits once all pods of priority p or lower have ended; so
        at least one victim has priority p. It is ``NO_PRIORITY`` where the room of those is enough whose end costs
        nothing. Shape (m,).
    start
        When the youngest pod of that priority began; shape (m,).
    """

    rows: NDArray[np.int64]
    priority: NDArray[np.int64]
    start: NDArray[np.float64]


class PriorityLevels:
    """Says below which priority all pods of a node have to end at least so that a pod fits there.

    Parameters
    ----------
    state
        What is known.
    disruption
        Tells by which priority pods end.
    """

    def __init__(self, state: State, disruption: GroupDisruption) -> None:
        self._state = state
        self._disruption = disruption
        self._requests = RequestTable(state, self._disruption)
        self._occupants: dict[str, OccupantTable] = {}

    def any_costless(self, rows: NDArray[np.int64]) -> bool:
        """Tell whether a pod is known whose end costs nothing, once some node rows are up to date."""
        return self._requests.any_costless(rows)

    def occupants(self, dialect: str) -> OccupantTable:
        """Return who holds what of the devices of a dialect."""
        if dialect not in self._occupants:
            self._occupants[dialect] = OccupantTable(self._state, dialect, self._disruption)
        return self._occupants[dialect]

    def lowest(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> Iterator[LowestPriorities]:
        """Yield the nodes where a pod would fit if others ended, as far as these nodes alone have a say.

        First those where it is enough that pods leave which end already, or only wait to be bound, then those where
        the end of all pods of the lowest priority that there is is enough, which is asked for once, then all others:
        often nobody asks for these. Those whose end costs nothing are gone on all of them.

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
            yield LowestPriorities(enough, np.full(enough.shape[0], NO_PRIORITY), np.full(enough.shape[0], np.inf))
            rows = rows[~fits]
        if not levels.size or not rows.size:
            return
        fits = self._fits(preemptor, rows, np.full(rows.shape[0], levels[0] + 1))
        yield self._found(rows[fits], np.full(np.count_nonzero(fits), levels[0]))
        if levels.size > 1:
            yield self._bisected(preemptor, rows[~fits], levels[1:])

    def _bisected(self, preemptor: Preemptor, rows: NDArray[np.int64], levels: NDArray[np.int64]) -> LowestPriorities:
        """Return the nodes where the end of all pods up to one of some priorities is enough, with the lowest."""
        lowest, highest = np.zeros(rows.shape[0], dtype=np.int64), np.full(rows.shape[0], levels.size - 1)
        fits = self._fits(preemptor, rows, levels[highest] + 1)
        rows, lowest, highest = rows[fits], lowest[fits], highest[fits]
        while (open_ := np.flatnonzero(lowest < highest)).size:
            middle = (lowest[open_] + highest[open_]) // 2
            fits = self._fits(preemptor, rows[open_], levels[middle] + 1)
            highest[open_[fits]], lowest[open_[~fits]] = middle[fits], middle[~fits] + 1
        return self._found(rows, levels[highest])

    def _found(self, rows: NDArray[np.int64], priority: NDArray[np.int64]) -> LowestPriorities:
        starts = np.empty(rows.shape[0])
        latest_starts(rows, priority, self._requests.refresh(rows), starts)
        return LowestPriorities(rows, priority, starts)

    def any_lower(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which nodes pods of lower priority are; shape (n,)."""
        pods, priority = self._requests.refresh(rows), preemptor.pod.priority
        before = np.concatenate([[0], np.cumsum((pods.priority < priority) | (pods.costless < priority))])
        found: NDArray[np.bool_] = before[pods.last[rows]] > before[pods.first[rows]]
        return found

    def without_lower(self, preemptor: Preemptor, rows: NDArray[np.int64]) -> NodePart:
        """Return the question of a pod with the answers of nodes from which all pods of lower priority are gone.

        It is void when the next one is asked of any part.
        """
        return self._once_gone(preemptor, rows, np.full(rows.shape[0], preemptor.pod.priority))

    def _fits(self, preemptor: Preemptor, rows: NDArray[np.int64], below: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell on which nodes a pod fits once all pods below some priorities are gone; shape (n,)."""
        return self._once_gone(preemptor, rows, below).feasible[rows]

    def _once_gone(self, preemptor: Preemptor, rows: NDArray[np.int64], below: NDArray[np.int64]) -> NodePart:
        """Return the question of a pod with the answers of nodes from which all pods below some priorities are gone.

        Those of lower priority whose end costs nothing are gone anyway.
        """
        state, dialect = self._state, preemptor.node.dialect
        matrix, requested = state.matrix(dialect), np.array(state.nodes.used.T, order="C")  # a copy
        live = matrix.columns
        columns = live._replace(used=live.used.copy(), explained=live.explained.copy())
        of_row = np.zeros(state.nodes.capacity, dtype=np.int64)
        of_row[rows] = below
        requests, occupants = self._requests.refresh(rows), self.occupants(dialect).refresh(rows)
        subtract_lower_priorities(rows, of_row, preemptor.pod.priority, requests, requested, occupants, columns)
        explain_devices(columns)
        # Ports that pods hold who stay are looked at when the node is, and so are the cards of those it is apart from.
        with state.ignoring_peers():
            return preemptor.node.if_in_use_on(state, rows, InUse(requested.T, HostPorts(), {dialect: columns}))
