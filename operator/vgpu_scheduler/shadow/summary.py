"""Summarise a record: the numbers of a report, each of which follows from the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from vgpu_scheduler.history.statistics import quantiles
from vgpu_scheduler.shadow import faults
from vgpu_scheduler.shadow.records import Fault, MissedPlacement, PodRecord, Record

SHORTEST_WATCH: Final = 60.0
"""The least watched time in seconds for averages."""


@dataclass(frozen=True, slots=True)
class WaitingTimes:
    """Statistics of waits, in seconds.

    Attributes
    ----------
    pods
        The number of pods.
    median, most_of_ten, longest
        The median, the 90th percentile, and the maximum.
    """

    pods: int
    mean: float
    median: float
    most_of_ten: float
    longest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> WaitingTimes:
        """Compute the statistics of waits."""
        values = np.sort(np.array(list(seconds), dtype=np.float64))
        if not values.size:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        median, most = quantiles(values, (0.5, 0.9))
        return cls(values.size, *(round(float(each), 1) for each in (values.mean(), median, most, values[-1])))


@dataclass(frozen=True, slots=True)
class OneDecision:
    """The horizon of one decision: both schedulers' choices for the same pod in the same cluster.

    Attributes
    ----------
    compared
        The number of pods that were placed during a watch and for which this scheduler made a choice.
    same
        Pods for which it chose the same node and cards.
    other_cards, other_node
        Pods for which it chose other cards of the same node, and another node.
    nowhere
        Pods that it would not have placed, for lack of room or because of policies.
    """

    compared: int
    same: int
    other_cards: int
    other_node: int
    nowhere: tuple[PodRecord, ...]

    @classmethod
    def of(cls, pods: Iterable[PodRecord]) -> OneDecision:
        """Count the choices."""
        compared = [each for each in pods if each.place is not None and each.choice is not None]
        nodes = [
            each.choice.place.node == each.place.node
            for each in compared
            if each.differs and each.choice is not None and each.choice.place is not None and each.place is not None
        ]
        return cls(
            compared=len(compared),
            same=sum(not each.differs for each in compared),
            other_cards=sum(nodes),
            other_node=len(nodes) - sum(nodes),
            nowhere=tuple(each for each in compared if each.choice is not None and each.choice.place is None),
        )


@dataclass(frozen=True, slots=True)
class AverageCards:
    """The mean state of the cards, in cards; see :class:`vgpu_scheduler.shadow.ClusterSample`."""

    cards: float = 0.0
    allocated: float = 0.0
    stranded_free: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a record.

    Attributes
    ----------
    arrived, placed, waiting, gave_up
        The number of pods that arrived, were bound, wait at the end, and ended without having been bound.
    unseen
        The number of arrived pods that were bound or deleted at an unknown time between watches.
    waited
        The waits of the bound pods, apart from those.
    missed
        The missed placements of at least the minimum duration, the longest first.
    over, leaked, stalled
        The faults of cards and locks, in order of time.
    stand
        The mean state of the cards; None if the watched time is too short.
    """

    beside: str
    since: float
    until: float
    watched: float
    min_duration: float
    arrived: int
    placed: int
    waiting: int
    gave_up: int
    unseen: int
    waited: WaitingTimes
    choices: OneDecision
    missed: tuple[MissedPlacement, ...]
    over: tuple[Fault, ...]
    leaked: tuple[Fault, ...]
    stalled: tuple[Fault, ...]
    stand: AverageCards | None

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def summed_up(record: Record, min_duration: float) -> Summary:
    """Summarise a record.

    Parameters
    ----------
    min_duration
        The seconds that a fault or miss has to last to be reported.
    """
    now, pods = record.until, list(record.pods.values())
    missed = [each for each in record.missed if each.lasted(now) >= min_duration]
    wrong = faults.named(record.faults, min_duration)
    bound = [each for each in pods if each.bound is not None]
    return Summary(
        beside=record.other_scheduler,
        since=record.watches[0].since if record.watches else 0.0,
        until=now,
        watched=record.watched,
        min_duration=min_duration,
        arrived=len(pods),
        placed=len(bound),
        waiting=sum(each.bound is None and each.left is None for each in pods),
        gave_up=sum(each.bound is None and each.left is not None and not each.unseen for each in pods),
        unseen=sum(each.unseen for each in pods),
        waited=WaitingTimes.of(each.waited(now) for each in bound if not each.unseen),
        choices=OneDecision.of(pods),
        missed=tuple(sorted(missed, key=lambda each: -each.lasted(now))),
        over=_of(wrong, faults.OVER),
        leaked=_of(wrong, faults.LEAKED),
        stalled=_of(wrong, faults.STALLED),
        stand=_mean(record) if record.watched >= SHORTEST_WATCH else None,
    )


def _of(wrong: Sequence[Fault], ids: frozenset[str]) -> tuple[Fault, ...]:
    return tuple(fault for fault in wrong if fault.id in ids)


def _mean(record: Record) -> AverageCards:
    """Return the means over the watched time; each sample holds until the next one of its watch."""
    times = np.array([sample.at for sample in record.samples])
    if not times.size:
        return AverageCards()
    ends = np.append(times[1:], record.until)
    for watch in record.watches:
        within = times <= watch.until
        ends[within] = np.minimum(ends[within], watch.until)
    held = np.maximum(ends - times, 1e-9)
    rows = np.array([(each.cards, each.allocated, each.stranded_free, each.idle) for each in record.samples])
    return AverageCards(*(round(float(value), 2) for value in held @ rows / held.sum()))
