"""Answers ``vgpu-scheduler usage``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import click

from vgpu_scheduler.cli.cluster.messages import warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.cli.from_page import page_for, usage_from_page
from vgpu_scheduler.reading import ClusterOptions, hours_in_prometheus
from vgpu_scheduler.whatif import HeldHours, hours_of_running_pods, summed_by_namespace

_HOUR: Final = 3600.0
_DAY: Final = 24 * 3600
_RUN_NOW: Final = (
    "this is what the pods that run now have held since they started; of those that have ended only Prometheus knows"
)
_RUNNING_ALONE: Final = f"{_RUN_NOW} (--prometheus ADDRESS)"


def run(
    *, cluster: ClusterOptions, namespace: str | None, since: int, models: bool, prometheus: str | None, output: str
) -> None:
    """Show it."""
    if prometheus and cluster.files:
        raise click.UsageError("--cluster reads files, and --prometheus says what has happened in a cluster: name one")
    page = page_for(cluster, _cannot(since, prometheus))
    with exit_on_error():
        if page is not None:
            found, is_metered = usage_from_page(page, cluster)
            if not is_metered:
                warn(_RUN_NOW)
        elif prometheus:
            found = hours_in_prometheus(prometheus, since)
        else:
            world, view = open_world(cluster)
            now = view.read_at or datetime.now(UTC)
            found = hours_of_running_pods(world, now, since / _HOUR)
            warn(_RUNNING_ALONE)
    rows = [each for each in found if namespace is None or each.namespace == namespace]
    rows = rows if models else summed_by_namespace(rows)
    if output not in FOR_PEOPLE:
        dump([row.as_json() for row in rows], output)
    elif rows:
        click.echo(_table(rows, models=models, wide=output == WIDE))
    else:
        click.echo(_nobody(namespace, of_page=page is not None))


def _nobody(namespace: str | None, *, of_page: bool) -> str:
    """Say that nobody has held any cards: of the page's namespaces, only of those that it shows to who asks."""
    if namespace is not None:
        unseen = ", or it is none of the namespaces whose pods you may list" if of_page else ""
        return f"nobody in {namespace} has held any cards{unseen}"
    seen = "of the namespaces whose pods you may list none"
    return f"{seen if of_page else 'nobody'} has held any cards"


def _cannot(since: int, prometheus: str | None) -> str:
    """Return why the page cannot answer; empty where it can."""
    if prometheus:
        return "the page says what its own Prometheus does: leave --prometheus out"
    return "" if since == _DAY else "the page tells of the last day: leave --since out"


def _table(rows: Sequence[HeldHours], *, models: bool, wide: bool) -> str:
    """Return rows, the greatest first, and their sum where there are several."""
    ordered = sorted(rows, key=lambda row: (-row.card_hours, -row.gib_hours, row.namespace, row.model))
    cells = [(row.namespace, *([row.model] if models else []), *_hours(row)) for row in ordered]
    if len(rows) > 1:
        total = HeldHours("all", "", sum(row.gib_hours for row in rows), sum(row.card_hours for row in rows))
        cells.append((total.namespace, *([""] if models else []), *_hours(total)))
    return table(cells, ("namespace", *(["model"] if models else []), "GiB-hours", "card-hours"), wide=wide)


def _hours(row: HeldHours) -> tuple[str, str]:
    return f"{row.gib_hours:.1f}", f"{row.card_hours:.2f}"
