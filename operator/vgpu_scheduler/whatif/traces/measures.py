"""What a replay came to, in numbers that are taken from its audit and from nothing else."""

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
"""Percent of demand at which a replay is measured in which nobody leaves."""
_PERCENT: Final = 100.0
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Point:
    """How things stand when so much demand has arrived.

    Attributes
    ----------
    demand
        Percent of the cards that were asked for.
    allocation
        Percent of the cards that are given out: the mean over the arrivals at which the demand rounds to this percent;
        where pods leave, the mean over time after the warm-up.
    fragmentation
        Percent of the cards that are free and of no use to typical pods.
    rejected
        Pods that found no place so far.
    idle_nodes, idle_cards
        How many nobody uses.
    """

    demand: int
    allocation: float
    fragmentation: float
    rejected: int
    idle_nodes: int
    idle_cards: int

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, rounded to what machines agree on."""
        return {name: round(value, _DIGITS) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Course:
    """What a replay came to.

    Attributes
    ----------
    points
        At 100, 110 and 130 percent of demand, or at the end of the trace if it comes first; where pods leave, one, at
        the end.
    curve
        The allocation at each percent of demand from 0 to 130; empty where pods leave.
    arrived
        Pods that came.
    withheld
        Rejected pods for which a node had room.
    """

    points: Sequence[Point]
    curve: Sequence[float]
    arrived: int
    withheld: int


def measure(run: Run, spots: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> Course:
    """Audit a replay, and measure it.

    Parameters
    ----------
    spots
        Where each pod was; None for those that were rejected.
    mix
        The pods that fragmentation is measured by.

    Raises
    ------
    AuditError
        If a placement does not fit, or is not what the pod asked for.
    """
    return _of_arrivals(run, spots, mix) if run.load is None else _of_churn(run, run.load, spots, mix)


def _of_arrivals(run: Run, spots: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> Course:
    capacity = run.fleet.capacity
    demand = np.cumsum([pod.demand for pod in run.arrivals.pods])
    percent = np.rint(_PERCENT * demand / capacity).astype(np.int64)
    reached = [min(int(np.searchsorted(percent, point)), percent.size - 1) for point in POINTS]
    used, states = np.zeros(percent.size), {}
    withheld = 0
    for at, free in enumerate(audited(run.fleet, run.arrivals, spots)):
        used[at] = _PERCENT * free.used / capacity
        withheld = free.withheld
        if at in reached:
            states[at] = _state(free, mix)
    curve = _curve(percent, used)
    points = [Point(point, curve[point], *states[at]) for point, at in zip(POINTS, reached, strict=True)]
    return Course(points, curve, len(spots), withheld)


def _curve(percent: NDArray[np.int64], used: NDArray[np.float64]) -> list[float]:
    """Return the mean allocation at each percent of demand; where no arrival falls on one, that of the one before."""
    curve, last = [], 0.0
    for point in range(MOST_DEMAND + 1):
        there = used[percent == point]
        last = float(there.mean()) if there.size else last
        curve.append(last)
    return curve


def _of_churn(run: Run, load: float, spots: Sequence[CardLocation | None], mix: Sequence[TypicalPod]) -> Course:
    lasted = np.diff(np.clip(run.arrivals.times, WARM_UP, LIFETIMES), append=LIFETIMES)
    free, mean = FreeResources(run.fleet), 0.0
    for free, lasting in zip(audited(run.fleet, run.arrivals, spots), lasted, strict=True):
        mean += free.used * float(lasting) / (LIFETIMES - WARM_UP)
    point = Point(round(_PERCENT * load), _PERCENT * mean / run.fleet.capacity, *_state(free, mix))
    return Course([point], [], len(spots), free.withheld)


def _state(free: FreeResources, mix: Sequence[TypicalPod]) -> tuple[float, int, int, int]:
    """Return fragmentation, rejected pods, idle nodes and idle cards."""
    fleet, room, empty = free.fleet, free.room, Room.of(free.fleet)
    share = _PERCENT * fragmentation(fleet, room, mix) / fleet.capacity
    idle_cards = (room.shares == empty.shares) & (empty.shares > 0)
    return share, free.rejected, int((room.pods == empty.pods).sum()), int(idle_cards.sum())
