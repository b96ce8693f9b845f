"""Answers ``vgpu-scheduler usage``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import click

from vgpu_scheduler.cli.cluster.messages import fail, warn
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.cli.from_page import page_for, usage_from_page
from vgpu_scheduler.reading import ClusterOptions, MissingRightsError, PrometheusServer, hours_in_prometheus
from vgpu_scheduler.whatif import HeldHours, hours_of_running_pods, summed_by_namespace

_HOUR: Final = 3600.0
_DAY: Final = 24 * 3600
_RUN_NOW: Final = (
    "this is what the pods that run now have held since they were bound; those that have ended are only in Prometheus"
)
_NOT_SEEN: Final = (
    ". A page (--ui ADDRESS) shows the usage of the namespaces whose pods you may list, and Prometheus "
    "(--prometheus ADDRESS) that of all"
)
_RUNNING_ALONE: Final = f"{_RUN_NOW} (--prometheus ADDRESS)"


def run(
    *,
    cluster: ClusterOptions,
    namespace: str | None,
    since: int,
    models: bool,
    prometheus: PrometheusServer | None,
    output: str,
) -> None:
    """Print the usage."""
    if prometheus and cluster.files:
        raise click.UsageError("--cluster reads files, and --prometheus is for a live cluster: name one of them")
    page = page_for(cluster, _cannot(since, prometheus))
    meant = ""
    with exit_on_error():
        if page is not None:
            found, is_metered = usage_from_page(page, cluster)
            if not is_metered:
                warn(_RUN_NOW)
        elif prometheus:
            found = hours_in_prometheus(prometheus, since)
        else:
            try:
                world, view = open_world(cluster)
            except MissingRightsError as error:
                fail(f"{error}{_NOT_SEEN}")
            now = view.read_at or datetime.now(UTC)
            found = hours_of_running_pods(world, now, since / _HOUR)
            warn(_RUNNING_ALONE)
            meant = did_you_mean_namespace(namespace, cluster, world)
    rows = [each for each in found if namespace is None or each.namespace == namespace]
    rows = rows if models else summed_by_namespace(rows)
    if output not in FOR_PEOPLE:
        dump([row.as_json() for row in rows], output)
    elif rows:
        click.echo(_table(rows, models=models, wide=output == WIDE))
    else:
        click.echo(_nobody(namespace, of_page=page is not None) + meant)


def _nobody(namespace: str | None, *, of_page: bool) -> str:
    """Say that no cards were held; the page's answer covers only namespaces that it shows to the user."""
    if namespace is not None:
        unseen = ", or you may not list its pods" if of_page else ""
        return f"no pod in {namespace} has held any cards{unseen}"
    seen = "none of the namespaces whose pods you may list"
    return f"{seen if of_page else 'no pod'} has held any cards"


def _cannot(since: int, prometheus: PrometheusServer | None) -> str:
    """Return why the page cannot answer; empty if it can."""
    if prometheus:
        return "the page uses its own Prometheus: leave out --prometheus"
    return "" if since == _DAY else "the page shows only the last day: leave out --since"


def _table(rows: Sequence[HeldHours], *, models: bool, wide: bool) -> str:
    """Return rows sorted from the largest, with their sum if there are several."""
    ordered = sorted(rows, key=lambda row: (-row.card_hours, -row.gib_hours, row.namespace, row.model))
    cells = [(row.namespace, *([row.model] if models else []), *_hours(row)) for row in ordered]
    if len(rows) > 1:
        total = HeldHours("all", "", sum(row.gib_hours for row in rows), sum(row.card_hours for row in rows))
        cells.append((total.namespace, *([""] if models else []), *_hours(total)))
    return table(cells, ("namespace", *(["model"] if models else []), "GiB-hours", "card-hours"), wide=wide)


def _hours(row: HeldHours) -> tuple[str, str]:
    return f"{row.gib_hours:.1f}", f"{row.card_hours:.2f}"
