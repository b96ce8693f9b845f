"""``vgpu-scheduler backtest``: what another policy would have meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import JSON, TABLE, WIDE, YAML, run_module


@click.command("backtest")
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file of the scheduler's log of what happened, or a folder of such files.",
)
@click.option(
    "--snapshot",
    type=click.Path(exists=True, path_type=Path),
    help="What `vgpu-scheduler snapshot` wrote, where there is no log: it knows less.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder of policies: they are in force instead of those of the same kind and name.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file of the scheduler (YAML), instead of the settings that are in the log.",
)
@click.option(
    "--resamples",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Replay so many times with arrivals that are drawn again, for intervals that know of knock-on effects.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What is drawn.")
@click.option("--processes", type=click.IntRange(1, 1024), help="How many at a time; default: one for each core.")
@click.option(
    "-o",
    "--output",
    type=click.Choice((TABLE, WIDE, "markdown", JSON, YAML)),
    default=TABLE,
    show_default=True,
)
def backtest(**options: Any) -> None:
    """Replay what happened to a cluster, under the policies of then and others.

    The leader writes it down where the setting history.directory says where. First each decision of the log is asked
    for again, which tells how far this program decides as that scheduler did. Then all pods arrive again, under the
    policies of the log and under each --policy, and these are compared: cards given out, what is free and of no use to
    whole cards, waiting by priority, namespace and size, evictions. Ends with 2 where something cannot be read.
    """
    if bool(options["logs"]) == bool(options["snapshot"]):
        raise click.UsageError("name either --log or --snapshot")
    run_module("backtest.command", **options)
