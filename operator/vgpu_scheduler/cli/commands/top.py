"""``vgpu-scheduler top``: who uses what."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, namespace_options, output_option, run_module

SUBJECTS = ("nodes", "cards", "pods", "namespaces")


@click.command("top")
@click.argument("subject", type=click.Choice(SUBJECTS), default="nodes")
@namespace_options
@cluster_options
@output_option(wide=True)
@click.option("-w", "--watch", is_flag=True, help="Look again and again.")
@click.option("--interval", type=click.FloatRange(min=0.5), default=2.0, show_default=True, help="Seconds, with -w.")
def top(**options: Any) -> None:
    """Show how much of the cards is used.

    Memory is in MiB, compute in percent of a card. FRAG is the part of the free memory that lies on partly used cards,
    in percent: a pod that wants a whole card cannot have it. Cards that are unhealthy or cordoned count as capacity,
    and not as free.
    """
    run_module("top", **options)
