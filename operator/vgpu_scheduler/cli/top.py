"""Answers ``vgpu-scheduler top``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.options import TABLE, WIDE, ClusterOptions
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.whatif import World, usage

_ALL: Final = "all"
_COLOURS: Final = ((90, "red"), (70, "yellow"))
Rows = list[list[object]]


def run(
    *, subject: str, namespace: str | None, cluster: ClusterOptions, output: str, watch: bool, interval: float
) -> None:
    """Show it once, or again and again."""
    if namespace is not None and subject in {"nodes", "cards"}:
        raise click.UsageError(f"-n is about pods and namespaces; {subject} belong to nobody")
    while True:
        with exit_on_error():
            world, _ = open_world(cluster)
        if watch and sys.stdout.isatty():
            click.clear()
        _show(world, subject, namespace, output)
        if not watch:
            return
        time.sleep(interval)


def _show(world: World, subject: str, namespace: str | None, output: str) -> None:
    rows = _ROWS[subject](world)
    if namespace is not None:
        rows = [row for row in rows if getattr(row, "namespace", namespace) == namespace]
    if output not in {TABLE, WIDE}:
        dump([_plain(row) for row in rows], output)
        return
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
    head = ["node", "card", "model", "memory", "mem%", "cores", "shares", "tenants", "state"]
    lines: Rows = [
        [
            *(row.node, row.card, row.model, row.memory, _share(row.memory.percent)),
            *(row.cores, row.slots, len(row.tenants), _state(row.state)),
            *([row.numa, row.mode, ",".join(row.tenants)] if wide else []),
        ]
        for row in rows
    ]
    return [*head, *(["numa", "mode", "pods"] if wide else [])], lines


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
    return click.style(f"{percent}%", fg=colour) if colour and sys.stdout.isatty() else f"{percent}%"


def _state(state: str) -> str:
    return click.style(state, fg="red") if state != "ready" and sys.stdout.isatty() else state


def _all_nodes(world: World) -> list[Any]:
    rows: list[Any] = usage.nodes(world)
    return [*rows, usage.summed(_ALL, usage.cards(world))] if len(rows) > 1 else rows


_ROWS: Final[Mapping[str, Callable[[World], list[Any]]]] = {
    "nodes": _all_nodes,
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
