"""``vgpu-scheduler cordon`` and ``uncordon``: take single cards out of service, and back."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import live_options, run_module


@click.command("cordon")
@click.argument("words", nargs=-1, required=True, metavar="[card] CARD...")
@live_options
def cordon(**options: Any) -> None:
    """Take cards out of service.

    What runs there goes on, nothing new comes. Writes the annotation that the cards' device plugin and every scheduler
    of its dialect follow, with your own rights; cards that have none are refused by name.
    """
    run_module("cordon", on=True, **options)


@click.command("uncordon")
@click.argument("words", nargs=-1, required=True, metavar="[card] CARD...")
@live_options
def uncordon(**options: Any) -> None:
    """Put cards that were cordoned back into service."""
    run_module("cordon", on=False, **options)
