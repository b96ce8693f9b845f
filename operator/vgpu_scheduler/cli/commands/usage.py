"""``vgpu-scheduler usage``: how long who has held how much."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.durations import Duration
from vgpu_scheduler.cli.cluster.options import (
    cluster_options,
    namespace_option,
    output_option,
    page_options,
    run_module,
)


@click.command("usage")
@cluster_options
@page_options
@namespace_option
@click.option("--since", type=Duration(), default="1d", show_default=True, help="How far back: 12h, 7d, 4w.")
@click.option("--models", is_flag=True, help="A row for each model of cards.")
@click.option(
    "--prometheus",
    metavar="ADDRESS",
    envvar="VGPU_SCHEDULER_PROMETHEUS",
    show_envvar=True,
    help="Where Prometheus answers, such as http://127.0.0.1:9090. It knows the pods that have ended, too.",
)
@output_option
def usage(**options: Any) -> None:
    """Show how long namespaces have held how much of the cards.

    GIB-HOURS are GiB of the cards' memory times hours. CARD-HOURS are cards times hours: a pod's share of a card is the
    largest of its shares of slots, memory and compute, and the shares on one card never add up to more than the card.
    With --prometheus it is what the scheduler's counters say. Without, it is what the pods that run now have held since
    they started: nobody knows of those that have ended. With --ui it is what the page has added up of the last day, of
    the namespaces whose pods one may list.
    """
    run_module("usage", **options)
