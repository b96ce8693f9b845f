"""``vgpu-scheduler run``: the operator."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module
from vgpu_scheduler.reading.run_flags import run_flags


@click.command("run")
@run_flags
def run(**options: Any) -> None:
    """Run the operator. Also accepts the flags of HAMi's scheduler."""
    run_module("run", **options)
