"""``vgpu-scheduler settings``: every setting, and whether a file of them is understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import run_module


@click.command("settings")
@click.option("--check", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Only check this file.")
def settings(**options: Any) -> None:
    """Show every setting with its default and what it does.

    The output is a settings file that changes nothing: what each is for, the values that it may have, and the name of
    its environment variable are comments. With --check a file is held against them; ends with 2 if it is not
    understood.
    """
    run_module("show_settings", **options)
