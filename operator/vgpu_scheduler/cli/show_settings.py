"""``vgpu-scheduler settings``: every setting."""

from __future__ import annotations

import click

from vgpu_scheduler.settings import describe


@click.command("settings")
def show_settings() -> None:
    """Show every setting with its default and what it does."""
    for line in describe():
        click.echo(line)
