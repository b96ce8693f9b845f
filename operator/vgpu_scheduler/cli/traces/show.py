"""The result of a trace replay as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from vgpu_scheduler.cli.cluster.output import table
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.traces import POINTS, Summary

_STATE: Final = ("fragmented", "rejected", "idle nodes", "idle cards")


def show(summaries: Sequence[Summary]) -> None:
    """Print the table, followed by an explanation of its numbers."""
    load = summaries[0].runs[0].load
    allocations = ["allocated"] if load is not None else [f"at {point}%" for point in POINTS]
    rows = [[summary.workload, summary.policy, *_cells(summary)] for summary in summaries]
    click.echo(table(rows, ("workload", "policy", *allocations, *_STATE)))
    fleet, seeds = summaries[0].runs[0].fleet, [run.seed for run in summaries[0].runs]
    cards = sum(len(node.models) for node in fleet.nodes)
    mean = "" if len(seeds) == 1 else f", the mean of {len(seeds)} seeds ± standard deviation"
    if load is None:
        said = "allocated when that share was requested, the other columns at 100%"
    else:
        said = f"allocated on average at load {load:g}, the other columns at the end"
    click.echo(f"\nPercent of {counted(cards, 'card')} on {counted(len(fleet.nodes), 'node')}: {said}{mean}.")


def _cells(summary: Summary) -> list[str]:
    points = range(len(summary.results[0].points))
    allocated = [_number(summary, point, "allocation", 2) for point in points]
    return [
        *allocated,
        _number(summary, 0, "fragmentation", 2),
        *(_number(summary, 0, measure, 0) for measure in ("rejected", "idle_nodes", "idle_cards")),
    ]


def _number(summary: Summary, point: int, measure: str, digits: int) -> str:
    mean = f"{summary.mean(point, measure):.{digits}f}"
    if len(summary.runs) == 1 or not digits:
        return mean
    return f"{mean} ± {summary.deviation(point, measure):.{digits}f}"
