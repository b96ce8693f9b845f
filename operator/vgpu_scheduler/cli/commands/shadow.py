"""``vgpu-scheduler shadow``: what this scheduler would have done in the place of another one."""

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
@click.option("--beside", metavar="NAME", help="The scheduler that is watched, as pods name it: hami-scheduler.")
@click.option("--for", "seconds", type=Duration(), help="How long it is watched: 8h, 24h, 7d; default: until Ctrl-C.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for what was seen, written every minute: a later watch goes on there.",
)
@click.option(
    "--min-duration",
    type=Duration(),
    default="1m",
    show_default=True,
    help="What lasts for less is not worth a word.",
)
@click.option("--at", type=click.DateTime(_TIMES), help="For snapshot: a time as the report has it, in UTC.")
@click.option("-o", "--output", type=click.Choice([MARKDOWN, HTML, JSON, YAML]), default=MARKDOWN, show_default=True)
def shadow(what: str | None, beside: str | None, state: Path | None, at: datetime | None, **options: Any) -> None:
    """Watch another scheduler, and say what this one would have done.

    It only reads: it follows the cluster with your own rights, asks this scheduler about each pod that the other one
    places, and binds nothing. The report goes to stdout when the time is over, or at Ctrl-C: pods that waited although
    they would have fitted, cards that are over or leaked in the other one's books, locks that stalled, and what would
    have become of the same arrivals within an hour, and all the time. docs/shadow.md says what each number rests on.

    `shadow report --state FOLDER` prints the report of what was seen so far, and `shadow snapshot --state FOLDER --at
    TIME` the cluster as it was seen at a time, for `explain` and `simulate --cluster`.
    """
    if what and state is None:
        raise click.UsageError(f"{what} needs --state: the folder with what was seen")
    if what and (beside or options["seconds"]):
        raise click.UsageError(f"--beside and --for are for a watch, and {what} makes none")
    if (what == "snapshot") != (at is not None):
        raise click.UsageError("snapshot and --at TIME go together")
    if what == "snapshot":
        run_module("shadow.snapshot", state=state, at=at)
        return
    if not (what or beside):
        raise click.UsageError("--beside is missing: the scheduler that is watched, as pods name it")
    run_module("shadow.command", beside=beside, state=state, **options)
