"""``vgpu-scheduler settings``: every setting, and whether a file of them is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module


@click.command("settings")
@click.option(
    "--check",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Path to a settings file to check, instead of printing.",
)
def settings(**options: Any) -> None:
    """Show every setting with its default and what it does.

    The output is a settings file that changes nothing; comments give the purpose of each setting, its possible values
    and its environment variable. With --check, checks a settings file instead; exits with 2 if it is invalid.
    """
    run_module("show_settings", **options)
