"""``vgpu-scheduler usage``: GiB-hours and card-hours that namespaces have held."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.durations import Duration
from vgpu_scheduler.cli.cluster.options import (
    cluster_options,
    namespace_option,
    output_option,
    page_options,
    prometheus_options,
    run_module,
)


@click.command("usage")
@cluster_options
@page_options
@namespace_option
@click.option("--since", type=Duration(), default="1d", show_default=True, help="How far back: 12h, 7d, 4w.")
@click.option("--models", is_flag=True, help="Show a row for each card model.")
@prometheus_options("includes pods that have ended.")
@output_option
def usage(**options: Any) -> None:
    """Show the GiB-hours and card-hours of namespaces.

    GIB-HOURS are GiB of the cards' memory times hours. CARD-HOURS are cards times hours: a pod's share of a card is the
    largest of its shares of slots, memory and compute, and the shares on one card never add up to more than the card.
    With --prometheus, the values come from the scheduler's counters. Without it, they cover what the running pods have
    held since they were bound, and no pods that have ended. With --ui, they are the page's totals of the last day, for
    the namespaces whose pods you may list.
    """
    run_module("usage", **options)
