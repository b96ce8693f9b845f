"""``vgpu-scheduler snapshot``: a file that stands for a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import live_options, run_module


@click.command("snapshot")
@click.option("-f", "--file", type=click.Path(path_type=Path), help="Where it is written; default: stdout.")
@live_options
def snapshot(**options: Any) -> None:
    """Write what decisions depend on into one file.

    It stands for the cluster in `--cluster` of the other commands, and can be shown to others: it has nodes, pods,
    policies, quotas, claims and volumes, and the scheduler's settings, as JSON. Secrets are not read; environments,
    commands, probes and who wrote what are left out of pods.
    """
    run_module("snapshot", **options)
