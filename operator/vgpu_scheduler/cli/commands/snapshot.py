"""``vgpu-scheduler snapshot``: a file that stands for a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.durations import Duration
from vgpu_scheduler.cli.cluster.options import live_options, prometheus_options, run_module


@click.command("snapshot")
@click.option("-f", "--file", type=click.Path(path_type=Path), help="Path of the file to write; default: stdout.")
@prometheus_options("adds deleted pods with cards, as recorded from kube-state-metrics. `backtest` replays them.")
@click.option("--since", type=Duration(), help="How far back --prometheus is queried: 12h, 7d, 4w; default: 7d.")
@live_options
def snapshot(**options: Any) -> None:
    """Write everything that decisions depend on into one file.

    Other commands read the file with `--cluster` instead of a cluster, and it can be shared: it has nodes, pods,
    policies, quotas, claims and volumes, and the scheduler's settings, as JSON. Secrets are not read; environments,
    commands, probes and managed fields are left out of pods.
    """
    run_module("snapshot", **options)
