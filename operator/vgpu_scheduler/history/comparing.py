"""Compare two policies by measures of their replays, with intervals.

An interval tells how much a measure varies when the blocks of time are resampled (bootstrapped), each with its
arrivals. Both replays of a history are resampled together, so that their common variation cancels out in the
difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.history.replay_result import ReplayedPod, ReplayResult
from vgpu_scheduler.history.resampling import Blocks
from vgpu_scheduler.history.statistics import integrals, quantiles

LEVEL: Final = 90
"""Percent of the resampled values within an interval."""
_DRAWS: Final = 200
_Values = NDArray[np.float64]
_FALLS, _RISES = -1, 1


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of replays.

    Attributes
    ----------
    name
        The name for scripts.
    title
        The name for people.
    unit
        ``%``, ``s``, or empty for a count.
    better
        1 if higher is better, -1 if lower is.
    """

    name: str
    title: str
    unit: str
    better: int


MEASURES: Final = (
    Measure("allocated", "cards allocated", "%", _RISES),
    Measure("stranded_free", "free of cards in use", "%", _FALLS),
    Measure("idle", "whole cards free", "", _RISES),
    Measure("wait_mean", "wait, mean", "s", _FALLS),
    Measure("wait_half", "wait, half of the pods", "s", _FALLS),
    Measure("wait_most", "wait, 9 of 10 pods", "s", _FALLS),
    Measure("never", "pods never placed", "", _FALLS),
    Measure("evictions", "evictions", "", _FALLS),
)
_BY_NAME: Final = {measure.name: measure for measure in MEASURES}
_OF_CARDS: Final = ("allocated", "stranded_free", "idle")
_OF_GROUPS: Final = ("wait_mean", "wait_most", "never")


@dataclass(frozen=True, slots=True)
class Interval:
    """A value, and the interval of :data:`LEVEL` percent of its resampled values."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """A measure of a group of pods under two policies.

    Attributes
    ----------
    group
        The group, such as ``priority 100``; empty for all pods, and for measures of cards.
    pods
        The number of pods in the group; 0 for measures of cards.
    before, after
        The measure under the policies of the log, and under the other ones.
    difference
        ``after`` minus ``before``.
    """

    measure: Measure
    group: str
    pods: int
    before: Interval
    after: Interval
    difference: Interval

    @property
    def verdict(self) -> int:
        """1 if the other policies are better, -1 if they are worse, 0 if the interval includes no difference."""
        low, high = self.difference.low, self.difference.high
        return 0 if low <= 0.0 <= high else self.measure.better * (1 if low > 0.0 else -1)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        intervals = {"before": self.before, "after": self.after, "difference": self.difference}
        told = {-1: "worse", 0: "open", 1: "better"}[self.verdict]
        return {
            "measure": self.measure.name,
            "unit": self.measure.unit,
            "group": self.group,
            "pods": self.pods,
            **{name: [round(each.value, 4), round(each.low, 4), round(each.high, 4)]
               for name, each in intervals.items()},
            "verdict": told,
        }  # fmt: skip


Group = Callable[[ReplayedPod], bool]


def groups_of(result: ReplayResult) -> dict[str, list[int]]:
    """Return the indexes of the pods of each group: all, by priority, by namespace, by number of cards."""
    found: dict[str, list[int]] = {"": list(range(len(result.pods)))}
    named: dict[tuple[int, Any, str], list[int]] = {}
    for number, pod in enumerate(result.pods):
        for key in (
            (0, -pod.priority, f"priority {pod.priority}"),
            (1, pod.namespace, f"namespace {pod.namespace}"),
            (2, pod.asked, f"{pod.asked} card{'' if pod.asked == 1 else 's'}"),
        ):
            named.setdefault(key, []).append(number)
    by_kind: dict[int, list[tuple[Any, str, list[int]]]] = {}
    for (kind, rank, name), numbers in named.items():
        by_kind.setdefault(kind, []).append((rank, name, numbers))
    for kind in sorted(by_kind):
        if len(by_kind[kind]) > 1:  # a single group would be all pods
            found |= {name: numbers for _, name, numbers in sorted(by_kind[kind], key=lambda each: each[:2])}
    return found


class _Sample:
    """The pods and cards of a replay by block, for measures with weighted blocks."""

    def __init__(self, result: ReplayResult, blocks: Blocks) -> None:
        self._blocks = blocks
        self.block = np.array([blocks.number(pod.arrived) for pod in result.pods], dtype=np.int64)
        self.waited = np.array([pod.waited for pod in result.pods])
        self.never = np.array([float(pod.started is None) for pod in result.pods])
        self.cards = _by_block(result, blocks)
        evicted = [blocks.number(each.at) for each in result.evictions]
        self.evictions = np.bincount(np.array(evicted, dtype=np.int64), minlength=blocks.count).astype(np.float64)

    def of_all(self, weights: _Values) -> Iterator[tuple[str, float]]:
        """Yield the measures that do not concern pods."""
        seconds = float(weights @ self.cards[0])
        cards, allocated, stranded_free, idle = (float(weights @ column) for column in self.cards[1:])
        yield "allocated", 100.0 * allocated / cards if cards else 0.0
        yield "stranded_free", 100.0 * stranded_free / cards if cards else 0.0
        yield "idle", idle / seconds if seconds else 0.0
        yield "evictions", float(weights @ self.evictions)

    def of_pods(self, weights: _Values, order: NDArray[np.int64]) -> Iterator[tuple[str, float]]:
        """Yield the measures of pods, whose indexes are given in ascending order of their waits."""
        waited, counts = self.waited[order], weights[self.block[order]]
        pods = float(counts.sum())
        yield "wait_mean", float(counts @ waited) / pods if pods else 0.0
        yield from zip(("wait_half", "wait_most"), quantiles(waited, (0.5, 0.9), counts), strict=True)
        yield "never", float(counts @ self.never[order])


def _by_block(result: ReplayResult, blocks: Blocks) -> tuple[_Values, ...]:
    """Return, for each block, its seconds, and the card-seconds in service, allocated, stranded and unused."""
    edges = blocks.began + blocks.seconds * np.arange(blocks.count + 1, dtype=np.float64)
    edges[-1] = result.ended
    series = result.series
    columns = (np.ones_like(series.allocated), series.cards, series.allocated, series.stranded_free, series.idle)
    return tuple(integrals(series.times, column, edges) for column in columns)


def measured(result: ReplayResult) -> Mapping[str, float]:
    """Return the measures of a replay over all its pods."""
    blocks = Blocks.of(result.began, result.ended)
    sample, all_ = _Sample(result, blocks), np.ones(blocks.count)
    return dict([*sample.of_all(all_), *sample.of_pods(all_, np.argsort(sample.waited, kind="stable"))])


def compared(before: Sequence[ReplayResult], after: Sequence[ReplayResult], seed: int = 0) -> list[MeasureComparison]:
    """Compare two policies.

    Parameters
    ----------
    before, after
        The replays under each policy: that of the history, then those of the same resampled histories, if any.
    seed
        The random seed for resampling blocks, used without resampled histories.

    Returns
    -------
    list
        The measures of all pods and of the cards, then those of groups.
    """
    first, second = before[0], after[0]
    blocks = Blocks.of(first.began, first.ended)
    groups, others = groups_of(first), groups_of(second)
    names = [(name, "") for name in _BY_NAME]
    names += [(name, group) for group in groups if group for name in _OF_GROUPS]
    if len(before) > 1:
        values = [(_all_measures(one), _all_measures(other)) for one, other in zip(before, after, strict=True)]
    else:
        rng = np.random.default_rng(seed)
        draws = rng.multinomial(blocks.count, np.full(blocks.count, 1.0 / blocks.count), size=_DRAWS)
        weights = [np.ones(blocks.count), *draws.astype(np.float64)]
        values = list(zip(_drawn(first, groups, weights), _drawn(second, others, weights), strict=True))
    found = []
    for name, group in names:
        pairs = np.array([(one.get((name, group), 0.0), other.get((name, group), 0.0)) for one, other in values])
        pods = 0 if name in _OF_CARDS else len(groups[group])
        one, other, difference = (_interval(each) for each in (pairs[:, 0], pairs[:, 1], pairs[:, 1] - pairs[:, 0]))
        found.append(MeasureComparison(_BY_NAME[name], group, pods, one, other, difference))
    return found


def _all_measures(result: ReplayResult) -> dict[tuple[str, str], float]:
    blocks = Blocks.of(result.began, result.ended)
    return next(_drawn(result, groups_of(result), [np.ones(blocks.count)]))


def _drawn(
    result: ReplayResult, groups: Mapping[str, Sequence[int]], weights: Sequence[_Values]
) -> Iterator[dict[tuple[str, str], float]]:
    """Yield the measures of all groups, for each set of weights of blocks."""
    sample = _Sample(result, Blocks.of(result.began, result.ended))
    orders = {}
    for group, numbers in groups.items():
        theirs = np.array(numbers, dtype=np.int64)
        orders[group] = theirs[np.argsort(sample.waited[theirs], kind="stable")]
    for drawn in weights:
        found = {(name, ""): value for name, value in sample.of_all(drawn)}
        for group, order in orders.items():
            found |= {(name, group): value for name, value in sample.of_pods(drawn, order)}
        yield found


def bounds(drawn: _Values) -> tuple[float, float]:
    """Return the interval that contains :data:`LEVEL` percent of values."""
    outside = (100 - LEVEL) / 2
    low, high = np.percentile(drawn, (outside, 100 - outside))
    return float(low), float(high)


def _interval(values: _Values) -> Interval:
    """Return the first value with the interval of the others, extended to include it."""
    others = values[1:] if values.size > 1 else values
    low, high = bounds(others)
    return Interval(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))
