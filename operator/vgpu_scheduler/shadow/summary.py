"""What a record comes to: the numbers of a report, each of which can be looked up in the record."""

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
"""Seconds that somebody has to have watched for averages to mean anything."""


@dataclass(frozen=True, slots=True)
class WaitingTimes:
    """How long pods waited, in seconds.

    Attributes
    ----------
    pods
        How many are counted.
    median, most_of_ten, longest
        Half of them waited no longer, nine of ten, and all.
    """

    pods: int
    mean: float
    median: float
    most_of_ten: float
    longest: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> WaitingTimes:
        """Sum up."""
        values = np.sort(np.array(list(seconds), dtype=np.float64))
        if not values.size:
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        median, most = quantiles(values, (0.5, 0.9))
        return cls(values.size, *(round(float(each), 1) for each in (values.mean(), median, most, values[-1])))


@dataclass(frozen=True, slots=True)
class OneDecision:
    """The horizon of one decision: the same pod on the same cluster.

    Attributes
    ----------
    compared
        Pods that were placed while somebody watched, and for which this scheduler chose, too.
    same
        For which it chose the same node and cards.
    other_cards, other_node
        For which it chose other cards of the same node, and another node.
    nowhere
        Which it would have placed nowhere, for want of room or by its policies.
    """

    compared: int
    same: int
    other_cards: int
    other_node: int
    nowhere: tuple[PodRecord, ...]

    @classmethod
    def of(cls, pods: Iterable[PodRecord]) -> OneDecision:
        """Count what was chosen."""
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
    """How the cards stood on average, in cards; see :class:`vgpu_scheduler.shadow.Sample`."""

    cards: float = 0.0
    given: float = 0.0
    stranded: float = 0.0
    whole: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """What a record comes to.

    Attributes
    ----------
    arrived, placed, waiting, gave_up
        Pods that came, were bound, wait at the end, and went without having been bound.
    unseen
        Of the pods that came, those that were bound or went while nobody watched, and of which nothing tells when.
    waited
        How long those waited that were bound, but for those.
    missed
        The pods that waited although they would have fitted, at least for the minimum duration; the longest first.
    over, leaked, stalled
        What was wrong with cards and locks, in the order of time.
    stand
        None where too short a time was watched for averages.
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
        """Return it as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def summed_up(record: Record, min_duration: float) -> Summary:
    """Sum up a record.

    Parameters
    ----------
    min_duration
        Seconds that something has to have lasted to be worth a word.
    """
    now, pods = record.until, list(record.pods.values())
    missed = [each for each in record.missed if each.lasted(now) >= min_duration]
    wrong = faults.named(record.faults, min_duration)
    bound = [each for each in pods if each.bound is not None]
    return Summary(
        beside=record.beside,
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
    """Return the means over the time that somebody watched: each sample holds until the next one of its watch."""
    times = np.array([sample.at for sample in record.samples])
    if not times.size:
        return AverageCards()
    ends = np.append(times[1:], record.until)
    for watch in record.watches:
        within = times <= watch.until
        ends[within] = np.minimum(ends[within], watch.until)
    held = np.maximum(ends - times, 1e-9)
    rows = np.array([(each.cards, each.given, each.stranded, each.whole) for each in record.samples])
    return AverageCards(*(round(float(value), 2) for value in held @ rows / held.sum()))
