"""``vgpu-scheduler shadow``: compares another scheduler with what this one would have done."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.durations import Duration
from vgpu_scheduler.cli.cluster.options import JSON, YAML, live_options, run_module

MARKDOWN: Final = "markdown"
HTML: Final = "html"
_TIMES: Final = ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ")


@click.command("shadow")
@click.argument("what", type=click.Choice(["report", "snapshot"]), required=False)
@live_options
@click.option(
    "--beside", metavar="NAME", help="Name of the scheduler to watch, as in spec.schedulerName: hami-scheduler."
)
@click.option("--for", "seconds", type=Duration(), help="How long to watch: 8h, 24h, 7d; default: until Ctrl-C.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Path to a folder for observations, written every minute; a later watch continues from it.",
)
@click.option(
    "--min-duration",
    type=Duration(),
    default="1m",
    show_default=True,
    help="Report nothing that lasted for less.",
)
@click.option("--at", type=click.DateTime(_TIMES), help="For snapshot: a time from the report, in UTC.")
@click.option("-o", "--output", type=click.Choice([MARKDOWN, HTML, JSON, YAML]), default=MARKDOWN, show_default=True)
def shadow(what: str | None, beside: str | None, state: Path | None, at: datetime | None, **options: Any) -> None:
    """Watch another scheduler, and report what this one would have done.

    Only reads: follows the cluster with your own rights, asks this scheduler about each pod that the other scheduler
    places, and binds nothing. Prints a report when the time is over, or at Ctrl-C: pods that waited although they
    would have fitted, cards used beyond their capacity, leaked cards, stalled locks, and how the same arrivals would
    have fared under this scheduler, over one hour and over the whole time. docs/shadow.md explains each number.

    `shadow report --state FOLDER` prints the report of the observations so far, and `shadow snapshot --state FOLDER
    --at TIME` the cluster as observed at a time, for `explain` and `simulate --cluster`.
    """
    if what and state is None:
        raise click.UsageError(f"{what} needs --state: the folder with the record")
    if what and (beside or options["seconds"]):
        raise click.UsageError(f"--beside and --for are for a watch, and {what} makes none")
    if (what == "snapshot") != (at is not None):
        raise click.UsageError("snapshot and --at TIME must be given together")
    if what == "snapshot":
        run_module("shadow.snapshot", state=state, at=at)
        return
    if not (what or beside):
        raise click.UsageError("--beside is missing: name the scheduler to watch, as pods name it")
    run_module("shadow.command", beside=beside, state=state, **options)
