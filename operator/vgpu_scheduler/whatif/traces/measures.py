"""Measures of a replay, computed from its audit alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces.arrivals import LIFETIMES, MOST_DEMAND, WARM_UP, Run
from vgpu_scheduler.whatif.traces.audit import FreeResources, audited
from vgpu_scheduler.whatif.traces.fleet import Room
from vgpu_scheduler.whatif.traces.mix import TypicalPod, fragmentation
from vgpu_scheduler.whatif.traces.placing import CardLocation

POINTS: Final = (100, 110, 130)
"""Percent of demand at which a replay without departures is measured."""
_PERCENT: Final = 100.0
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Point:
    """The measures when a given demand has arrived.

    Attributes
    ----------
    demand
        Percent of the cards that arrived pods have asked for.
    allocation
        Percent of the cards that is allocated: the mean over the arrivals at which the demand rounds to this percent,
        or, if pods leave, the mean over time after the warm-up.
    fragmentation
        Percent of the cards that is free but cannot be used by typical pods.
    rejected
        Pods that were rejected so far.
    idle_nodes, idle_cards
        Number of unused nodes and cards.
    """

    demand: int
    allocation: float
    fragmentation: float
    rejected: int
    idle_nodes: int
    idle_cards: int

    def as_json(self) -> dict[str, Any]:
        """Return the measures as plain values, rounded so that they are equal on all machines."""
        return {name: round(value, _DIGITS) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The measures of a replay.

    Attributes
    ----------
    points
        At 100, 110 and 130 percent of demand, or at the end of the trace if that comes first; if pods leave, a single
        point at the end.
    curve
        The allocation at each percent of demand from 0 to 130; empty if pods leave.
    arrived
        Number of arrived pods.
    withheld
        Rejected pods for which a node had room.
    """

    points: Sequence[Point]
    curve: Sequence[float]
    arrived: int
    withheld: int


def measure(run: Run, locations: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> RunResult:
    """Audit and measure a replay.

    Parameters
    ----------
    locations
        The location of each pod; None for rejected pods.
    mix
        The typical pods by which fragmentation is measured.

    Raises
    ------
    AuditError
        If a placement is impossible, or not what the pod asked for.
    """
    return _of_arrivals(run, locations, mix) if run.load is None else _of_churn(run, run.load, locations, mix)


def _of_arrivals(run: Run, locations: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> RunResult:
    capacity = run.fleet.capacity
    demand = np.cumsum([pod.demand for pod in run.arrivals.pods])
    percent = np.rint(_PERCENT * demand / capacity).astype(np.int64)
    reached = [min(int(np.searchsorted(percent, point)), percent.size - 1) for point in POINTS]
    used, states = np.zeros(percent.size), {}
    withheld = 0
    for at, free in enumerate(audited(run.fleet, run.arrivals, locations)):
        used[at] = _PERCENT * free.used / capacity
        withheld = free.withheld
        if at in reached:
            states[at] = _state(free, mix)
    curve = _curve(percent, used)
    points = [Point(point, curve[point], *states[at]) for point, at in zip(POINTS, reached, strict=True)]
    return RunResult(points, curve, len(locations), withheld)


def _curve(percent: NDArray[np.int64], used: NDArray[np.float64]) -> list[float]:
    """Return the mean allocation at each percent of demand; a percent without arrivals takes the previous value."""
    curve, last = [], 0.0
    for point in range(MOST_DEMAND + 1):
        there = used[percent == point]
        last = float(there.mean()) if there.size else last
        curve.append(last)
    return curve


def _of_churn(run: Run, load: float, locations: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> RunResult:
    lasted = np.diff(np.clip(run.arrivals.times, WARM_UP, LIFETIMES), append=LIFETIMES)
    free, mean = FreeResources(run.fleet), 0.0
    for free, lasting in zip(audited(run.fleet, run.arrivals, locations), lasted, strict=True):
        mean += free.used * float(lasting) / (LIFETIMES - WARM_UP)
    point = Point(round(_PERCENT * load), _PERCENT * mean / run.fleet.capacity, *_state(free, mix))
    return RunResult([point], [], len(locations), free.withheld)


def _state(free: FreeResources, mix: Sequence[TypicalPod]) -> tuple[float, int, int, int]:
    """Return fragmentation, rejected pods, idle nodes and idle cards."""
    fleet, room, empty = free.fleet, free.room, Room.of(free.fleet)
    share = _PERCENT * fragmentation(fleet, room, mix) / fleet.capacity
    idle_cards = (room.shares == empty.shares) & (empty.shares > 0)
    return share, free.rejected, int((room.pods == empty.pods).sum()), int(idle_cards.sum())
