"""``vgpu-scheduler run``: the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module
from vgpu_scheduler.cli.hami_flags import hami_flags


@click.command("run")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (YAML).")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: the service account.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("--scheduler-name", "scheduler_names", multiple=True, help="Place pods that name this scheduler.")
@click.option("--http-port", type=int, help="Port of health and metrics.")
@hami_flags
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), help="How much is logged.")
def run(**options: Any) -> None:
    """Run the operator. The flags of HAMi's scheduler are understood, too."""
    run_module("run", **options)
