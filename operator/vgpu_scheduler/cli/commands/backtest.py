"""``vgpu-scheduler backtest``: replays a history under other policies."""

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
    help="Path to a file of the scheduler's history log, or to a folder of such files.",
)
@click.option(
    "--snapshot",
    type=click.Path(exists=True, path_type=Path),
    help="Path to output of `vgpu-scheduler snapshot`, for clusters without a log; it contains less.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Path to a file or folder of policies, which replace those of the same kind and name.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Path to the scheduler's settings file (YAML), instead of the settings in the log.",
)
@click.option(
    "--resamples",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Number of replays with resampled arrivals, for intervals that include knock-on effects.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resampling.")
@click.option(
    "--processes", type=click.IntRange(1, 1024), help="Number of parallel processes; default: one for each core."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice((TABLE, WIDE, "markdown", JSON, YAML)),
    default=TABLE,
    show_default=True,
)
def backtest(**options: Any) -> None:
    """Replay the history of a cluster under its own policies and under others.

    The leader writes the history log if the setting history.directory is set. First, each decision in the log is
    repeated, which shows how far this program decides as that scheduler did. Then all pods arrive again, under the
    policies of the log and under each --policy, and the outcomes are compared: allocated cards, the unusable rest of
    cards in use, waiting times by priority, namespace and size, and evictions. Exits with 2 if something cannot be
    read.
    """
    if bool(options["logs"]) == bool(options["snapshot"]):
        raise click.UsageError("name either --log or --snapshot")
    run_module("backtest.command", **options)
