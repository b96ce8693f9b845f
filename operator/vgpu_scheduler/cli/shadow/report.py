"""The report of a shadow run: headings, sentences, tables and charts, to be written as Markdown or HTML."""

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
    ClusterSample,
    Fault,
    Horizon,
    MissedPlacement,
    Record,
    Summary,
    summed_up,
)
from vgpu_scheduler.whatif import number

_MOST_ROWS: Final = 20
"""The most rows of a table; ``-o json`` has all of them."""
_ONE_DECISION: Final = (
    "Whenever the other scheduler placed a pod, this scheduler decided about the same pod on the cluster as "
    "it was just before. Each step starts from the cluster that the other scheduler made, so effects of "
    "this scheduler's decisions do not accumulate."
)
_ASSUMED: Final = (
    "Arrivals are those that were seen. A placed pod runs as long as it did; one that was never placed is "
    "deleted when it was, and one whose end was not seen stays to the end. Pods of other schedulers stay "
    "where they were. No pod is evicted, binding takes no time, and no user reacts to shorter waits."
)


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a header row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TimeChart:
    """A chart of values over time.

    Attributes
    ----------
    title
        The title, also for readers who cannot see the chart.
    lines
        The values at the times, with the name of each line.
    most
        The end of the axis; 0 for the largest value.
    """

    title: str
    times: tuple[float, ...]
    lines: tuple[tuple[str, tuple[float, ...]], ...]
    most: float = 0.0


Block = Heading | Paragraph | Table | TimeChart


@dataclass(frozen=True, slots=True)
class ShadowDocument:
    """The record of a shadow run, with its replays.

    Attributes
    ----------
    untold
        Why horizons are missing, one sentence each.
    """

    record: Record
    min_duration: float
    horizons: Sequence[Horizon] = ()
    untold: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        record: Record,
        min_duration: float,
        replays: Iterable[Callable[[], Horizon | None]],
        truncated: Sequence[str],
    ) -> ShadowDocument:
        """Return the report of a record; a record of a short time is not replayed.

        Parameters
        ----------
        truncated
            Sentences about data that could not be read.
        """
        if record.watched < SHORTEST_WATCH:
            return cls(record, min_duration, (), ("The time is too short for a replay.", *truncated))
        found = [each for replay in replays if (each := replay()) is not None]
        nothing = () if found else ("No pod arrived or waited, so there is nothing to replay.",)
        return cls(record, min_duration, found, (*nothing, *truncated))

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        found: dict[str, Any] = {
            "beside": self.record.other_scheduler,
            "settings": self.record.under,
            "summary": summed_up(self.record, self.min_duration).as_json(),
            "horizons": [horizon.as_json() for horizon in self.horizons],
            "untold": list(self.untold),
            "samples": msgspec.to_builtins(self.record.samples),
        }
        return found

    def blocks(self) -> Iterator[Block]:
        """Yield the parts of the report for people."""
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
        yield Heading("Assumptions")
        yield from map(Paragraph, _rests_on(self.record, summary))


def _too_short(watched: float) -> str:
    """Say that the time was too short for averages."""
    return (
        f"The cluster was watched for {measured_duration(watched)} in all, which is too short for averages: "
        f"these need {measured_duration(SHORTEST_WATCH)}, and are meaningful after hours."
    )


def _opening(summary: Summary) -> str:
    gaps = summary.until - summary.since - summary.watched
    without = f", {measured_duration(gaps)} of which were not watched" if gaps >= 1.0 else ""
    unseen = ""
    if summary.unseen:
        unseen = (
            f" How long {counted(summary.unseen, 'pod')} waited is not known: they were bound or deleted while "
            "the cluster was not watched."
        )
    lasted = measured_duration(summary.until - summary.since)
    return (
        f"From {_time(summary.since)} to {_time(summary.until)}: {lasted}{without}."
        f" {counted(summary.arrived, 'pod')} of {summary.beside} asked for cards: {summary.placed} were bound,"
        f" {summary.waiting} wait at the end, and {summary.gave_up} were deleted without having been bound.{unseen}"
    )


def _numbers(summary: Summary, horizons: Sequence[Horizon]) -> Iterator[Block]:
    waited, stand = summary.waited, summary.stand
    less = f"a pod would have waited less, on average (with {LEVEL} % interval)"
    averages: tuple[tuple[str, str], ...] = ()
    waits: tuple[tuple[str, str], ...] = ()
    if waited.pods:
        waits = (
            ("wait of bound pods: half of them at most", measured_duration(waited.median)),
            ("nine of ten at most", measured_duration(waited.most_of_ten)),
            ("the longest", measured_duration(waited.longest)),
        )
    if stand is not None:
        averages = (
            ("cards in service, on average", number(stand.cards)),
            ("allocated, in cards", f"{number(stand.allocated)} ({_percent(stand.allocated, stand.cards)})"),
            ("free on cards that are partly used, in cards", number(stand.stranded_free)),
            ("whole cards without pods", number(stand.idle)),
        )
    yield Table(
        ("measure", "value"),
        (
            *averages,
            *waits,
            (f"pods that waited for {measured_duration(summary.min_duration)} or more although they would have fitted",
             str(len({each.uid for each in summary.missed}))),
            ("cards used beyond their capacity", str(len({(each.object, each.about) for each in summary.over}))),
            ("leaked cards: objects that keep them", str(len({each.object for each in summary.leaked}))),
            ("stalled locks", str(len({(each.object, each.about) for each in summary.stalled}))),
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
        "At each look from that time on, for that long, this scheduler found room for the pod, beside the "
        "others, in the order in which it serves pods. What happened between two looks is not known, and a time "
        "without watching ends the row. The node and the cards are those that had room at first."
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
    """Return what was wrong on the node that had room."""
    until = summary.until if missed.until is None else missed.until
    stalled = (each for each in summary.stalled if each.object == f"Node {missed.place.node}")
    return (
        "the lock of the node stalled"
        if any(each.since < until and missed.since < each.seen for each in stalled)
        else ""
    )


def _faults(summary: Summary) -> Iterator[Block]:
    parts = (
        ("Cards used beyond their capacity", summary.over, "No card was used beyond its capacity."),
        ("Leaked cards", summary.leaked, "No card was kept by an object that does not use it."),
        ("Stalled locks", summary.stalled, "No lock was kept without need."),
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
        "The replay and the real cluster diverge once one pod is placed differently. For one hour, each hour "
        "starts again from the real cluster, and its arrivals are replayed (48 hours at most, spread over the "
        "time); for the whole time, all"
        " arrivals are replayed from the beginning."
    )
    yield Paragraph(_ASSUMED)
    if horizons:
        yield Table(
            ("horizon", "pods", "they waited", "would have waited", f"less, with {LEVEL} % interval", "placed",
             "would be placed", "cards allocated", "would be allocated"),
            tuple(
                (each.name, str(each.pods), f"{number(each.waited)} s", f"{number(each.would_wait)} s", _saved(each),
                 str(each.placed), str(each.would_be_placed), number(each.allocated), number(each.would_be_allocated))
                for each in horizons
            ),
        )  # fmt: skip
        yield Paragraph(
            "The interval comes from resampling the hours of arrivals 1,000 times, with the same seed: it says "
            "how far the mean depends on which hours were seen, and nothing about hours of other kinds. For one "
            "hour, a"
            " pod that waits for several of them counts in each. For the whole time each pod counts once, and what it"
            " waited in several watches adds up."
        )
    yield from map(Paragraph, untold)


def _pictures(samples: Sequence[ClusterSample]) -> Iterator[Block]:
    if len(samples) < 2:
        return
    times = tuple(each.at for each in samples)
    yield Heading("Over time")
    yield TimeChart(
        "Cards: allocated, and free on cards that are partly used",
        times,
        (
            ("allocated", tuple(each.allocated for each in samples)),
            ("free on cards partly used", tuple(each.stranded_free for each in samples)),
        ),
        max(each.cards for each in samples),
    )
    yield TimeChart("Pods that wait for cards", times, (("waiting", tuple(float(each.waiting) for each in samples)),))


def _rests_on(record: Record, summary: Summary) -> Iterator[str]:
    yield (
        f"Nothing is assumed about {record.other_scheduler}: what it did was read from the objects that it wrote. No "
        "part of this report models its algorithm."
    )
    yield (
        f"This scheduler chose under its settings from {record.under or 'nowhere'}, and the policies of the cluster, as"
        " if the pods had named it. It read the cluster about once a second: what appeared and disappeared "
        "between two looks was not seen."
    )
    yield (
        f"What lasted for less than {measured_duration(summary.min_duration)} is left out, except locks, which "
        "the doctor judges by the time that they contain. What happened before, or while the cluster was not "
        "watched, is not known: pods that were bound by then count only as users of cards."
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    more = len(rows) - _MOST_ROWS
    shown = [*rows[:_MOST_ROWS], *([(f"and {more} more (-o json)", *[""] * (len(head) - 1))] if more > 0 else [])]
    return Table(head, tuple(shown))


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}Z"


def _look(seconds: float) -> str:
    """Return the time of a look in the format of ``--at``."""
    seconds, part = divmod(ceil(round(seconds * 1e6) / 1000), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{part:03}Z"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
