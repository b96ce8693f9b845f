"""The report of what was seen: headings, sentences, tables and pictures, to be written as Markdown or as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

import msgspec

from vgpu_scheduler.model import counted, measured_duration
from vgpu_scheduler.shadow import (
    LEVEL,
    SHORTEST_WATCH,
    Fault,
    Horizon,
    MissedPlacement,
    Record,
    Sample,
    Summary,
    summed_up,
)
from vgpu_scheduler.whatif import number

_MOST_ROWS: Final = 20
"""Of a table; scripts get all by ``-o json``."""
_ONE_DECISION: Final = (
    "When a pod got its place, this scheduler was asked about the same pod, on the cluster as it was just before. The"
    " cluster is the other scheduler's at each step, so what this one would have made of it adds up nowhere."
)
_ASSUMED: Final = (
    "Arrivals are those that were seen. A pod stays for as long after it is placed as it did; one that was never placed"
    " leaves when it did, and one that nobody saw leave stays to the end. Pods of other schedulers are where they were."
    " Nobody is evicted, binding takes no time, and no user reacts to a wait that is shorter."
)


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a part."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TimeChart:
    """What was measured over time.

    Attributes
    ----------
    title
        What is shown, for those who do not see it, too.
    lines
        By what they are called, the values at the times.
    most
        Where the axis ends; 0 for the greatest value.
    """

    title: str
    times: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float, ...]], ...]
    most: float = 0.0


Block = Heading | Paragraph | Table | TimeChart


@dataclass(frozen=True, slots=True)
class ShadowDocument:
    """What was seen, and what came of the horizons.

    Attributes
    ----------
    untold
        Why a horizon is missing, a sentence each.
    """

    record: Record
    min_duration: float
    horizons: Sequence[Horizon] = ()
    untold: Sequence[str] = ()

    @classmethod
    def of(
        cls, record: Record, min_duration: float, replays: Iterable[Callable[[], Horizon | None]], torn: Sequence[str]
    ) -> ShadowDocument:
        """Return the report of a record, of which nothing is replayed if it is of a short time.

        Parameters
        ----------
        torn
            What could not be read.
        """
        if record.watched < SHORTEST_WATCH:
            return cls(record, min_duration, (), ("Of so short a time nothing is replayed.", *torn))
        found = [each for replay in replays if (each := replay()) is not None]
        nothing = () if found else ("No pod arrived or waited, so there is nothing to replay.",)
        return cls(record, min_duration, found, (*nothing, *torn))

    def as_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        found: dict[str, Any] = {
            "beside": self.record.beside,
            "settings": self.record.under,
            "summary": summed_up(self.record, self.min_duration).as_json(),
            "horizons": [horizon.as_json() for horizon in self.horizons],
            "untold": list(self.untold),
            "samples": msgspec.to_builtins(self.record.samples),
        }
        return found

    def blocks(self) -> Iterator[Block]:
        """Yield it for people."""
        summary = summed_up(self.record, self.min_duration)
        yield Heading(f"Beside {summary.beside}")
        yield Paragraph(_opening(summary))
        if summary.stand is None:
            yield Paragraph(_too_short(summary.watched))
        yield from _numbers(summary, self.horizons)
        yield from _missed(summary)
        yield from _faults(summary)
        yield from _one_decision(summary)
        yield from _drifting(self.horizons, self.untold)
        yield from _pictures(self.record.samples)
        yield Heading("What this rests on")
        yield from map(Paragraph, _rests_on(self.record, summary))


def _too_short(watched: float) -> str:
    """Say that a time was too short for averages."""
    return (
        f"Somebody watched for {measured_duration(watched)} in all, which is too short for averages: these need"
        f" {measured_duration(SHORTEST_WATCH)}, and mean something after hours."
    )


def _opening(summary: Summary) -> str:
    gaps = summary.until - summary.since - summary.watched
    without = f", {measured_duration(gaps)} of which nobody watched" if gaps >= 1.0 else ""
    unseen = ""
    if summary.unseen:
        unseen = (
            f" Of {counted(summary.unseen, 'pod')} it is not known how long they waited: they were bound, or went,"
            " while nobody watched."
        )
    lasted = measured_duration(summary.until - summary.since)
    return (
        f"From {_time(summary.since)} to {_time(summary.until)}: {lasted}{without}."
        f" {counted(summary.arrived, 'pod')} of {summary.beside} asked for cards: {summary.placed} were bound,"
        f" {summary.waiting} wait at the end, and {summary.gave_up} went without having been bound.{unseen}"
    )


def _numbers(summary: Summary, horizons: Sequence[Horizon]) -> Iterator[Block]:
    waited, stand = summary.waited, summary.stand
    less = f"a pod would have waited less, on average (with {LEVEL} % interval)"
    averages: tuple[tuple[str, str], ...] = ()
    waits: tuple[tuple[str, str], ...] = ()
    if waited.pods:
        waits = (
            ("a bound pod had waited: half of them at most", measured_duration(waited.median)),
            ("nine of ten at most", measured_duration(waited.most_of_ten)),
            ("the longest", measured_duration(waited.longest)),
        )
    if stand is not None:
        averages = (
            ("cards in service, on average", number(stand.cards)),
            ("given out, in cards", f"{number(stand.given)} ({_percent(stand.given, stand.cards)})"),
            ("free on cards that are partly used, in cards", number(stand.stranded)),
            ("whole cards that nobody used", number(stand.whole)),
        )
    yield Table(
        ("in this time", "value"),
        (
            *averages,
            *waits,
            (f"pods that waited for {measured_duration(summary.min_duration)} or more although they would have fitted",
             str(len({each.uid for each in summary.missed}))),
            ("cards that were over", str(len({(each.object, each.about) for each in summary.over}))),
            ("cards that leaked: objects that keep them", str(len({each.object for each in summary.leaked}))),
            ("locks that stalled", str(len({(each.object, each.about) for each in summary.stalled}))),
            *((f"{less}: {each.name}", _saved(each)) for each in horizons),
        ),
    )  # fmt: skip


def _saved(horizon: Horizon) -> str:
    saved = horizon.saved
    if saved.low is None or saved.high is None:
        return f"{number(saved.mean)} s (too few hours for an interval: {horizon.blocks})"
    return f"{number(saved.mean)} s ({number(saved.low)} to {number(saved.high)} s)"


def _missed(summary: Summary) -> Iterator[Block]:
    yield Heading("Pods that waited although they would have fitted")
    if not summary.missed:
        yield Paragraph(f"None for {measured_duration(summary.min_duration)} or more.")
        return
    yield Paragraph(
        "At each look from that time on, for so long, this scheduler found room for the pod, beside the others, in the"
        " order in which it serves pods. Nobody saw what was between two looks, and a time in which nobody watched ends"
        " the row. The node and the cards are those that would have taken it at first."
    )
    yield _table(
        ("pod", "since", "for", "node", "cards", "meanwhile"),
        [
            (each.pod, _look(each.since), measured_duration(each.lasted(summary.until)), each.place.node,
             ", ".join(each.place.cards), _meanwhile(summary, each))
            for each in summary.missed
        ],
    )  # fmt: skip


def _meanwhile(summary: Summary, missed: MissedPlacement) -> str:
    """Say what was wrong on the node that had room."""
    until = summary.until if missed.until is None else missed.until
    stalled = (each for each in summary.stalled if each.object == f"Node {missed.place.node}")
    return (
        "the lock of the node stalled"
        if any(each.since < until and missed.since < each.seen for each in stalled)
        else ""
    )


def _faults(summary: Summary) -> Iterator[Block]:
    parts = (
        ("Cards that were over", summary.over, "No card was given more than it has."),
        ("Cards that leaked", summary.leaked, "No card was kept by anybody who does not use it."),
        ("Locks that stalled", summary.stalled, "No lock was kept for no good reason."),
    )
    for title, wrong, nothing in parts:
        yield Heading(title)
        if not wrong:
            yield Paragraph(nothing)
            continue
        rows = [(each.object, _look(each.since), _until(each), each.message, f"`{each.id}`") for each in wrong]
        yield _table(("object", "since", "until", "what", "doctor"), rows)


def _until(fault: Fault) -> str:
    return "it lasts" if fault.lasts else _look(fault.seen)


def _one_decision(summary: Summary) -> Iterator[Block]:
    found = summary.choices
    yield Heading("One decision: the same pod, the same cluster")
    yield Paragraph(_ONE_DECISION)
    yield Table(
        ("pods", "number"),
        (
            ("compared", str(found.compared)),
            ("same node, same cards", str(found.same)),
            ("same node, other cards", str(found.other_cards)),
            ("another node", str(found.other_node)),
            ("nowhere: this scheduler finds no room, or may not", str(len(found.nowhere))),
        ),
    )
    if found.nowhere:
        yield Paragraph("These were placed where this scheduler would not have placed them:")
        rows = [
            (each.pod, str(each.place), "" if each.choice is None else each.choice.reason) for each in found.nowhere
        ]
        yield _table(("pod", "it went to", "why not"), rows)


def _drifting(horizons: Sequence[Horizon], untold: Sequence[str]) -> Iterator[Block]:
    yield Heading("An hour, and the whole time")
    yield Paragraph(
        "Two worlds drift apart once one pod is placed otherwise. For one hour, each hour begins anew with the cluster"
        " as it was, and its arrivals are replayed (48 hours at most, spread over the time); for the whole time, all"
        " arrivals are replayed from the beginning."
    )
    yield Paragraph(_ASSUMED)
    if horizons:
        yield Table(
            ("horizon", "pods", "they waited", "would have waited", f"less, with {LEVEL} % interval", "placed",
             "would be placed", "cards given out", "would be given out"),
            tuple(
                (each.name, str(each.pods), f"{number(each.waited)} s", f"{number(each.would_wait)} s", _saved(each),
                 str(each.placed), str(each.would_be_placed), number(each.given), number(each.would_be_given))
                for each in horizons
            ),
        )  # fmt: skip
        yield Paragraph(
            "The interval comes of drawing hours of arrivals anew 1,000 times, from the same seed: it says how far the"
            " mean depends on which hours were seen, and nothing of what an hour would be that was not. For one hour, a"
            " pod that waits for several of them counts in each. For the whole time each pod counts once, and what it"
            " waited in several watches adds up."
        )
    yield from map(Paragraph, untold)


def _pictures(samples: Sequence[Sample]) -> Iterator[Block]:
    if len(samples) < 2:
        return
    times = tuple(each.at for each in samples)
    yield Heading("Over time")
    yield TimeChart(
        "Cards: given out, and free on cards that are partly used",
        times,
        (
            ("given out", tuple(each.given for each in samples)),
            ("free on cards partly used", tuple(each.stranded for each in samples)),
        ),
        max(each.cards for each in samples),
    )
    yield TimeChart("Pods that wait for cards", times, (("waiting", tuple(float(each.waiting) for each in samples)),))


def _rests_on(record: Record, summary: Summary) -> Iterator[str]:
    yield (
        f"Of {record.beside} nothing is assumed: what it did was read from the objects that it wrote, and nobody asked"
        " what it would have done instead. No part of this report is a model of its algorithm."
    )
    yield (
        f"This scheduler chose under its settings from {record.under or 'nowhere'}, and the policies of the cluster, as"
        " if the pods had named it. It looked about once a second: what came and went between two looks was not seen."
    )
    yield (
        f"What lasted for less than {measured_duration(summary.min_duration)} is left out, but for locks, which"
        " the doctor judges by the time that is written on them. What happened before, or while nobody watched, is not"
        " known: pods that were bound by then count as tenants alone."
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    more = len(rows) - _MOST_ROWS
    shown = [*rows[:_MOST_ROWS], *([(f"and {more} more (-o json)", *[""] * (len(head) - 1))] if more > 0 else [])]
    return Table(head, tuple(shown))


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def _look(seconds: float) -> str:
    """Name a look, as ``--at`` takes it."""
    seconds, part = divmod(ceil(round(seconds * 1e6) / 1000), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{part:03}Z"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
