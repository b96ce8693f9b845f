"""Arrivals and departures of a workload's pods, determined by the workload, the fleet and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces.fleet import Fleet
from vgpu_scheduler.whatif.traces.format import TraceError, TracePod

MOST_DEMAND: Final = 130
"""Percent of a fleet's cards that arriving pods ask for in total, if no pod leaves."""
WARM_UP: Final = 3.0
"""Mean lifetimes before measuring starts, if pods leave."""
LIFETIMES: Final = 5.0
"""Mean lifetimes after which a run ends, if pods leave."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pods in order of arrival, and the sequence of arrivals and departures.

    Attributes
    ----------
    steps
        The index of an arriving pod; ``~index`` for a departure.
    times
        The time of each step in mean lifetimes; empty if no pod leaves.
    """

    pods: Sequence[TracePod]
    steps: Sequence[int]
    times: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: a fleet with its nodes in an order drawn from a seed, and the arrivals.

    Attributes
    ----------
    load
        The mean demand as a fraction of all cards; None if no pod leaves.
    """

    seed: int
    fleet: Fleet
    arrivals: Arrivals
    load: float | None = None


def static_run(fleet: Fleet, workload: Sequence[TracePod], seed: int, *, shuffled: bool = True) -> Run:
    """Draw arrivals of pods until 130 percent of the cards were asked for; no pod leaves.

    The pods of the workload arrive in random order. If they ask for less, more are drawn among them at random until
    the next one would exceed the limit; if they ask for more, random ones are left out. This is the protocol of Weng
    et al., Beware of Fragmentation (USENIX ATC 2023), section 6.1.

    Parameters
    ----------
    shuffled
        Also shuffle the nodes, whose order breaks ties.

    Raises
    ------
    TraceError
        If no pod asks for a card.
    """
    rng = np.random.default_rng(seed)
    fleet = fleet.in_order(rng.permutation(len(fleet.nodes)).tolist()) if shuffled else fleet
    _mean_demand(workload)
    pods = [workload[number] for number in rng.permutation(len(workload))]
    demand, most = sum(pod.demand for pod in pods), fleet.capacity * MOST_DEMAND // 100
    if demand > most:
        while demand > most:
            demand -= pods.pop(int(rng.integers(len(pods)))).demand
    else:
        while demand + (pod := workload[int(rng.integers(len(workload)))]).demand <= most:
            demand += pod.demand
            pods.append(pod)
    return Run(seed, fleet, Arrivals(pods, range(len(pods)), np.zeros(0)))


def churning_run(fleet: Fleet, workload: Sequence[TracePod], seed: int, load: float, *, shuffled: bool = True) -> Run:
    """Draw arrivals and departures of pods at random times, in a fleet that is empty at first.

    Arrivals are a Poisson process, and lifetimes are exponential with mean 1; rejected pods do not return. Without
    rejections, the present pods would ask for ``load`` times the cards of the fleet on average.

    Parameters
    ----------
    load
        The mean demand as a fraction of all cards; see :func:`static_run` for the other parameters.

    Raises
    ------
    TraceError
        If no pod asks for a card.
    """
    rng = np.random.default_rng(seed)
    fleet = fleet.in_order(rng.permutation(len(fleet.nodes)).tolist()) if shuffled else fleet
    rate = load * fleet.capacity / _mean_demand(workload)
    count = int(rng.poisson(rate * LIFETIMES))
    come = np.sort(rng.uniform(0.0, LIFETIMES, count))
    go = come + rng.exponential(1.0, count)
    pods = [workload[number] for number in rng.integers(len(workload), size=count)]
    numbers = np.arange(count)
    leaving = go < LIFETIMES
    steps, times = np.concatenate((numbers, ~numbers[leaving])), np.concatenate((come, go[leaving]))
    order = np.argsort(times, kind="stable")
    return Run(seed, fleet, Arrivals(pods, steps[order].tolist(), times[order]), load)


def _mean_demand(workload: Sequence[TracePod]) -> float:
    demand = sum(pod.demand for pod in workload)
    if not demand:
        raise TraceError("no pod of the workload asks for a card")
    return demand / len(workload)
