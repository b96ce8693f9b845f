"""When the pods of a workload come, and whether they go: a function of the workload, the fleet and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.whatif.traces.fleet import Fleet
from vgpu_scheduler.whatif.traces.format import TraceError, TracePod

MOST_DEMAND: Final = 130
"""Percent of a fleet's cards that arrive, where nobody leaves."""
WARM_UP: Final = 3.0
"""Mean lifetimes after which is measured, where pods leave."""
LIFETIMES: Final = 5.0
"""Mean lifetimes after which it ends."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Pods in the order in which they come, and what happens step by step.

    Attributes
    ----------
    steps
        The number of the pod that comes; where one goes, ``~number``.
    times
        When, in mean lifetimes; empty where nobody goes.
    """

    pods: Sequence[TracePod]
    steps: Sequence[int]
    times: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: a fleet whose nodes are in the order of a seed, and what arrives there.

    Attributes
    ----------
    load
        What pods ask for on average, as a part of all cards; None where nobody leaves.
    """

    seed: int
    fleet: Fleet
    arrivals: Arrivals
    load: float | None = None


def static_run(fleet: Fleet, workload: Sequence[TracePod], seed: int, *, shuffled: bool = True) -> Run:
    """Let pods come until 130 percent of the cards were asked for; nobody leaves.

    The pods of the workload come in random order. Where they ask for less, more are drawn among them at random until
    the next one would go beyond; where they ask for more, some are left out at random: the protocol of Weng et al.,
    Beware of Fragmentation (USENIX ATC 2023), section 6.1.

    Parameters
    ----------
    shuffled
        The order of the nodes, which decides between equals, is of the seed, too.

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
    """Let pods come at random times and stay for random times, in a fleet that is empty at first.

    Arrivals are a Poisson process, lifetimes exponential with the mean 1; who is rejected does not come again. Without
    rejections, the pods that are there would ask for ``load`` times the cards of the fleet on average.

    Parameters
    ----------
    load
        What is asked for on average, as a part of all cards; see :func:`static_run` for the others.

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
