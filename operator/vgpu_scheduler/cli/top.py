"""Answers ``vgpu-scheduler top``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.cli.cluster.messages import in_colour, on_terminal, progress, view_warnings, warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE, ClusterOptions
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.view import read_cluster
from vgpu_scheduler.cli.cluster.world import MissingRightsError, exit_on_error, make_world, open_world
from vgpu_scheduler.whatif import World, usage

_ALL: Final = "all"
_INTERRUPTED: Final = 130
"""What a shell calls the end by Ctrl-C."""
_COLOURS: Final = ((90, "red"), (70, "yellow"))
Rows = list[list[object]]


def run(
    *, subject: str, namespace: str | None, cluster: ClusterOptions, output: str, watch: bool, interval: float
) -> None:
    """Show it once, or again and again until Ctrl-C."""
    if namespace is not None and subject in {"nodes", "cards"}:
        raise click.UsageError(f"-n is about pods and namespaces; {subject} belong to nobody")
    if not watch:
        with exit_on_error():
            world, _ = open_world(cluster)
        _show(world, subject, namespace, output)
        return
    try:
        _watch(cluster, interval, lambda world: _show(world, subject, namespace, output))
    except KeyboardInterrupt:
        progress("")
        raise SystemExit(_INTERRUPTED) from None


def _watch(cluster: ClusterOptions, interval: float, show: Callable[[World], None]) -> None:
    """Show a cluster again and again; warnings come below each table on a terminal, and else when they are new."""
    printed: list[str] = []
    shown = False
    while True:
        with exit_on_error():
            try:
                view = read_cluster(cluster, progress)
                world = make_world(view)
            except (ApiUnreachableError, MissingRightsError) as error:
                if not shown:
                    raise
                warn(f"{error}; it is asked again")
                time.sleep(interval)
                continue
        shown = True
        warnings = list(view_warnings(world, view))
        if on_terminal():
            click.clear()
        show(world)
        if on_terminal() or warnings != printed:
            for line in warnings:
                click.echo(line, err=True)
        printed = warnings
        time.sleep(interval)


def _show(world: World, subject: str, namespace: str | None, output: str) -> None:
    rows = _ROWS[subject](world)
    if namespace is not None:
        rows = [row for row in rows if getattr(row, "namespace", namespace) == namespace]
    if output not in FOR_PEOPLE:
        dump([_plain(row) for row in rows], output)
        return
    if subject == "nodes" and len(rows) > 1:
        rows.append(usage.summed(_ALL, usage.cards(world)))
    if not rows:
        click.echo(
            f"there are no {subject} with cards" if subject in {"nodes", "cards"} else f"no {subject} hold cards"
        )
        return
    head, lines = _TABLES[subject](rows, wide=output == WIDE)
    click.echo(table(lines, head))


def _plain(row: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in asdict(row).items():
        held = getattr(row, name)
        found[name] = {**value, "free": held.free} if isinstance(held, usage.Held) else value
        if isinstance(value, tuple):
            found[name] = list(value)
    return found


def _nodes(rows: Sequence[Any], *, wide: bool) -> tuple[Sequence[str], Rows]:
    head = ["node", "cards", "idle", "memory", "mem%", "cores", "cores%", "pods", "frag", *(["shares"] if wide else [])]
    lines: Rows = [
        [
            *(row.node, row.cards, row.idle, row.memory, _share(row.memory.percent), row.cores),
            *(_share(row.cores.percent), row.pods, f"{row.fragmentation}%", *([row.slots] if wide else [])),
        ]
        for row in rows
    ]
    return head, lines


def _cards(rows: Sequence[Any], *, wide: bool) -> tuple[Sequence[str], Rows]:
    head = ["node", "card", "model", "memory", "mem%", "cores", "shares", "pods", "state"]
    lines: Rows = [
        [
            *(row.node, row.card, row.model, row.memory, _share(row.memory.percent)),
            *(row.cores, row.slots, len(row.pods), _state(row.state)),
            *([row.numa, row.mode, ",".join(row.pods)] if wide else []),
        ]
        for row in rows
    ]
    return [*head, *(["numa", "mode", "names"] if wide else [])], lines


def _pods(rows: Sequence[Any], *, wide: bool) -> tuple[Sequence[str], Rows]:
    lines: Rows = [
        [row.namespace, row.pod, row.node, ",".join(row.cards) if wide else len(row.cards), row.memory, row.cores]
        for row in rows
    ]
    return ["namespace", "pod", "node", "cards", "memory", "cores"], lines


def _namespaces(rows: Sequence[Any], *, wide: bool) -> tuple[Sequence[str], Rows]:
    del wide
    lines: Rows = [[row.namespace, row.pods, row.waiting, row.cards, row.memory, row.cores] for row in rows]
    return ["namespace", "pods", "waiting", "cards", "memory", "cores"], lines


def _share(percent: int) -> str:
    colour = next((colour for least, colour in _COLOURS if percent >= least), None)
    return click.style(f"{percent}%", fg=colour) if colour and in_colour() else f"{percent}%"


def _state(state: str) -> str:
    return click.style(state, fg="red") if state != "ready" and in_colour() else state


_ROWS: Final[Mapping[str, Callable[[World], list[Any]]]] = {
    "nodes": usage.nodes,
    "cards": usage.cards,
    "pods": usage.pods,
    "namespaces": usage.namespaces,
}
_TABLES: Final[Mapping[str, Callable[..., tuple[Sequence[str], Rows]]]] = {
    "nodes": _nodes,
    "cards": _cards,
    "pods": _pods,
    "namespaces": _namespaces,
}
