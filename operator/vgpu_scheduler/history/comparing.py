"""What a policy would have meant: measures of a replay, and how sure they are.

An interval says how much a measure moves when the blocks of time are drawn again at random, those with few arrivals and
those with many, each as often as chance has it. Two replays of one history are drawn together, so that what they have
in common does not blur what sets them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.history.replay_result import PodCourse, ReplayResult
from vgpu_scheduler.history.resampling import Blocks
from vgpu_scheduler.history.statistics import integrals, quantiles

__all__ = [
    "LEVEL",
    "MEASURES",
    "Measure",
    "MeasureComparison",
    "bounds",
    "compared",
    "measured",
]

LEVEL: Final = 90
"""Percent of the drawn values that are within an interval."""
_DRAWS: Final = 200
_Values = NDArray[np.float64]
_FALLS, _RISES = -1, 1


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured.

    Attributes
    ----------
    name
        What scripts know it by.
    title
        What people read.
    unit
        ``%``, ``s``, or empty for a number of something.
    better
        1 if more of it is better, -1 if less is.
    """

    name: str
    title: str
    unit: str
    better: int


MEASURES: Final = (
    Measure("given", "cards given out", "%", _RISES),
    Measure("stranded", "free of cards in use", "%", _FALLS),
    Measure("whole", "whole cards free", "", _RISES),
    Measure("wait_mean", "wait, mean", "s", _FALLS),
    Measure("wait_half", "wait, half of the pods", "s", _FALLS),
    Measure("wait_most", "wait, 9 of 10 pods", "s", _FALLS),
    Measure("never", "pods never placed", "", _FALLS),
    Measure("evictions", "evictions", "", _FALLS),
)
_BY_NAME: Final = {measure.name: measure for measure in MEASURES}
_OF_CARDS: Final = ("given", "stranded", "whole")
_OF_GROUPS: Final = ("wait_mean", "wait_most", "never")


@dataclass(frozen=True, slots=True)
class Interval:
    """A value, and what it would be in nearly all draws."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """One measure of one group of pods under two policies.

    Attributes
    ----------
    group
        Which pods, such as ``priority 100``; empty for all, and for measures of cards.
    pods
        How many these are; 0 for measures of cards.
    before, after
        The measure under the policies of the log, and under the others.
    difference
        What it is more under the others.
    """

    measure: Measure
    group: str
    pods: int
    before: Interval
    after: Interval
    difference: Interval

    @property
    def verdict(self) -> int:
        """1 where it is better under the others, -1 where it is worse, 0 where there is no telling."""
        low, high = self.difference.low, self.difference.high
        return 0 if low <= 0.0 <= high else self.measure.better * (1 if low > 0.0 else -1)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
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


Group = Callable[[PodCourse], bool]


def groups_of(course: ReplayResult) -> dict[str, list[int]]:
    """Return the numbers of the pods of each group: all, by priority, by namespace, by how many cards they ask for."""
    found: dict[str, list[int]] = {"": list(range(len(course.pods)))}
    named: dict[tuple[int, Any, str], list[int]] = {}
    for number, pod in enumerate(course.pods):
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
        if len(by_kind[kind]) > 1:  # else it is all of them
            found |= {name: numbers for _, name, numbers in sorted(by_kind[kind], key=lambda each: each[:2])}
    return found


class _Sample:
    """A course in blocks, of which each may count several times."""

    def __init__(self, course: ReplayResult, blocks: Blocks) -> None:
        self._blocks = blocks
        self.block = np.array([blocks.number(pod.arrived) for pod in course.pods], dtype=np.int64)
        self.waited = np.array([pod.waited for pod in course.pods])
        self.never = np.array([float(pod.started is None) for pod in course.pods])
        self.cards = _by_block(course, blocks)
        evicted = [blocks.number(each.at) for each in course.evictions]
        self.evictions = np.bincount(np.array(evicted, dtype=np.int64), minlength=blocks.count).astype(np.float64)

    def of_all(self, weights: _Values) -> Iterator[tuple[str, float]]:
        """Yield the measures that are not of pods."""
        seconds = float(weights @ self.cards[0])
        cards, given, stranded, whole = (float(weights @ column) for column in self.cards[1:])
        yield "given", 100.0 * given / cards if cards else 0.0
        yield "stranded", 100.0 * stranded / cards if cards else 0.0
        yield "whole", whole / seconds if seconds else 0.0
        yield "evictions", float(weights @ self.evictions)

    def of_pods(self, weights: _Values, order: NDArray[np.int64]) -> Iterator[tuple[str, float]]:
        """Yield the measures of pods, whose numbers are in the order of how long they waited."""
        waited, counts = self.waited[order], weights[self.block[order]]
        pods = float(counts.sum())
        yield "wait_mean", float(counts @ waited) / pods if pods else 0.0
        yield from zip(("wait_half", "wait_most"), quantiles(waited, (0.5, 0.9), counts), strict=True)
        yield "never", float(counts @ self.never[order])


def _by_block(course: ReplayResult, blocks: Blocks) -> tuple[_Values, ...]:
    """Return, for each block, seconds, and card-seconds in service, given out, stranded and whole."""
    edges = blocks.began + blocks.seconds * np.arange(blocks.count + 1, dtype=np.float64)
    edges[-1] = course.ended
    series = course.series
    columns = (np.ones_like(series.given), series.cards, series.given, series.stranded, series.whole)
    return tuple(integrals(series.times, column, edges) for column in columns)


def measured(course: ReplayResult) -> Mapping[str, float]:
    """Return the measures of a course, all its pods together."""
    blocks = Blocks.of(course.began, course.ended)
    sample, all_ = _Sample(course, blocks), np.ones(blocks.count)
    return dict([*sample.of_all(all_), *sample.of_pods(all_, np.argsort(sample.waited, kind="stable"))])


def compared(before: Sequence[ReplayResult], after: Sequence[ReplayResult], seed: int = 0) -> list[MeasureComparison]:
    """Compare two policies.

    Parameters
    ----------
    before, after
        The courses under either: that of the history, and those of the same resampled histories, if there are any.
    seed
        What blocks are drawn by where there are no resampled histories.

    Returns
    -------
    list
        The measures of all pods and of the cards first; then those of groups.
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


def _all_measures(course: ReplayResult) -> dict[tuple[str, str], float]:
    blocks = Blocks.of(course.began, course.ended)
    return next(_drawn(course, groups_of(course), [np.ones(blocks.count)]))


def _drawn(
    course: ReplayResult, groups: Mapping[str, Sequence[int]], weights: Sequence[_Values]
) -> Iterator[dict[tuple[str, str], float]]:
    """Yield the measures of all groups, for each of some draws of blocks."""
    sample = _Sample(course, Blocks.of(course.began, course.ended))
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
    """Return between what :data:`LEVEL` percent of the drawn values lie."""
    outside = (100 - LEVEL) / 2
    low, high = np.percentile(drawn, (outside, 100 - outside))
    return float(low), float(high)


def _interval(values: _Values) -> Interval:
    """Return the first value with the interval that nearly all others are in; it is among them where it is alone."""
    others = values[1:] if values.size > 1 else values
    low, high = bounds(others)
    return Interval(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))
