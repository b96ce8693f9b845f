"""A back-test for people: tables on a terminal, and a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from vgpu_scheduler.cli.backtest.report import BacktestDocument, PolicyResult
from vgpu_scheduler.cli.cluster.output import markdown_table, table
from vgpu_scheduler.history.checking import Agreement
from vgpu_scheduler.history.comparing import LEVEL, MEASURES, Measure, MeasureComparison, measured
from vgpu_scheduler.model import counted, measured_duration

_VERDICTS: Final = {-1: "worse", 0: "", 1: "better"}
_MOST_GROUPS: Final = 12
"""The most groups of pods in a table that is not wide: those with the most pods."""
_MOST_DIFFERENCES: Final = 5
_HEAD: Final = ("measure", "pods", "log's policies", "with {}", "difference", "")
_ASSUMPTIONS: Final = (
    "A placed pod runs as long as in the log, from its placement here. Others are deleted when they were in the log.",
    "Pods are bound and victims end at once. A victim with a controller is recreated and runs its whole time again.",
    "Arrivals are those of the log: no pod asks for other resources, or arrives at another time, because of a policy.",
)
_NO_TIME: Final = "It spans no time, so neither allocated cards nor waiting times can be measured."


def show(report: BacktestDocument, *, wide: bool) -> None:
    """Print the report as tables."""
    for line in _lines(report, wide=wide):
        click.echo(line)


def _lines(report: BacktestDocument, *, wide: bool) -> Iterator[str]:
    yield _history(report)
    yield from _agreement(report.agreement, _MOST_DIFFERENCES if not wide else None)
    for text, times in report.lacked.items():
        yield f"  {text}{f' ({times} times)' if times > 1 else ''}"
    if report.is_empty:
        yield _NO_TIME
        return
    if not report.under:
        yield ""
        values = measured(report.before)
        yield table([(each.title, _value(each, values[each.name])) for each in MEASURES], ("measure", "replayed"))
    for under in report.under:
        yield ""
        yield f"{under.name} ({', '.join(under.policies)}):"
        yield ""
        yield table([_cells(row) for row in _rows(under, wide=wide)], _head(under), wide=True)
    if report.under:
        yield ""
        yield _intervals_note(report, "\n")


def markdown(report: BacktestDocument) -> str:
    """Return the report as a Markdown page."""
    lines = ["# Back-test", "", _history(report), ""]
    lines += [*_agreement(report.agreement, _MOST_DIFFERENCES), ""]
    lines += [f"- {text}" for text in (*report.found.problems, *report.lacked)]
    if report.is_empty:
        return "\n".join([*lines, "", _NO_TIME]) + "\n"
    for under in report.under:
        lines += [
            "",
            f"## {under.name}",
            "",
            f"In force: {', '.join(under.policies)}; all other policies as they were.",
        ]
        lines += [
            "",
            *_summary(under),
            "",
            *markdown_table([_head(under), *(_cells(row) for row in _rows(under, wide=True))]),
        ]
    if not report.under:
        values = measured(report.before)
        rows = [(each.title, _value(each, values[each.name])) for each in MEASURES]
        lines += ["", *markdown_table([("measure", "replayed"), *rows])]
    lines += ["", "## What this rests on", "", *(f"- {text}" for text in _ASSUMPTIONS)]
    lines += [f"- {_intervals_note(report)}"] if report.under else []
    return "\n".join(lines) + "\n"


def _history(report: BacktestDocument) -> str:
    seconds = (report.ended - report.began).total_seconds()
    placed, there = report.placed
    were = "was" if placed == 1 else "were"
    others = f", and {there} of those that existed at the beginning" if there else ""
    return (
        f"{counted(report.found.files, 'file')}, {measured_duration(seconds)} from {report.began:%Y-%m-%d %H:%M} to"
        f" {report.ended:%Y-%m-%d %H:%M} UTC: {counted(report.arrived, 'pod')} arrived, {placed} {were} placed{others}."
    )


def _agreement(agreement: Agreement | None, most: int | None) -> Iterator[str]:
    if agreement is None:
        yield "It contains no decisions, so they cannot be compared with those of this program."
        return
    if not agreement.decisions:
        yield "It contains no decisions of this scheduler, so they cannot be compared with those of this program."
        return
    part = 100.0 * agreement.same / agreement.decisions
    others = agreement.decisions - agreement.same - agreement.same_node
    cards = f", {agreement.same_node} on other cards of the node" if agreement.same_node else ""
    nodes = f", {others} otherwise" if others else ""
    yield (
        f"Decided again, {agreement.same} of {counted(agreement.decisions, 'decision')} come out the same"
        f" ({part:.2f} %){cards}{nodes}."
    )
    shown = agreement.differences[:most]
    for each in shown:
        yield f"  {each.pod}: then {each.then}, now {each.now}"
    left = agreement.decisions - agreement.same - len(shown)
    if left > 0:
        yield f"  and {left} more"


def _summary(under: PolicyResult) -> Iterator[str]:
    """Yield sentences about what is clearly better, and what is worse."""
    for verdict, word in ((1, "Better"), (-1, "Worse")):
        found = [row for row in under.compared if row.verdict == verdict]
        if found:
            told = [f"{_title(row)} ({_difference(row.measure, row.difference.value)}{_points(row)})" for row in found]
            yield f"**{word}**: {', '.join(told)}."
    if not any(row.verdict for row in under.compared):
        yield "No difference is larger than chance would explain."


def _rows(under: PolicyResult, *, wide: bool) -> list[MeasureComparison]:
    """Return the rows of a table: all, or those of the groups with the most pods."""
    groups = {row.group: row.pods for row in under.compared if row.group}
    most = sorted(groups, key=lambda group: -groups[group])[: None if wide else _MOST_GROUPS]
    return [row for row in under.compared if not row.group or (row.group in most and (wide or _is_telling(row)))]


def _is_telling(row: MeasureComparison) -> bool:
    return row.measure.name == "wait_mean" or (
        row.measure.name == "never" and bool(row.before.value or row.after.value)
    )


def _head(under: PolicyResult) -> tuple[str, ...]:
    return tuple(each.format(under.name) for each in _HEAD)


def _cells(row: MeasureComparison) -> tuple[str, ...]:
    low, high = (_difference(row.measure, value) for value in (row.difference.low, row.difference.high))
    same = row.difference.low == row.difference.high == 0.0
    return (
        _title(row),
        str(row.pods) if row.pods else "",
        _value(row.measure, row.before.value),
        _value(row.measure, row.after.value),
        "none" if same else f"{_difference(row.measure, row.difference.value)} ({low} to {high}){_points(row)}",
        _VERDICTS[row.verdict],
    )


def _points(row: MeasureComparison) -> str:
    return " points" if row.measure.unit == "%" else ""


def _title(row: MeasureComparison) -> str:
    return f"{row.measure.title}, {row.group}" if row.group else row.measure.title


def _value(measure: Measure, value: float) -> str:
    if measure.unit == "s":
        return measured_duration(value)
    return f"{value:.1f} %" if measure.unit == "%" else f"{value:.2f}".removesuffix(".00")


def _difference(measure: Measure, value: float) -> str:
    sign = "+" if value > 0 else "-" if value < 0 else ""
    text = f"{abs(value):.1f}" if measure.unit == "%" else _value(measure, abs(value))
    return f"{sign}{text}"


def _intervals_note(report: BacktestDocument, end: str = " ") -> str:
    """Explain the intervals; ``end`` separates the two sentences."""
    if report.resamples:
        over = f"{counted(report.resamples, 'replay')} with arrivals resampled in blocks of time"
    else:
        over = "resampled blocks of time of the replay"
    return (
        f"In brackets: the {LEVEL} % interval of the difference, over {over}.{end}A difference is better or "
        "worse if the interval does not contain 0."
    )
