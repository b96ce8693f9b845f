"""``vgpu-scheduler explain``: why a pod waits, or is where it is."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import (
    cluster_options,
    forecast_options,
    named_output_option,
    namespace_option,
    offer,
    page_options,
    run_module,
)


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[pod] [NAMESPACE/]NAME", shell_complete=offer("pods"))
@click.option("-l", "--selector", default="", help="All pods of the namespace with these labels: app=web,!old.")
@namespace_option
@click.option(
    "--node",
    default="",
    help="Show what the cards of this node say; a bound pod's node is compared with it.",
    shell_complete=offer("nodes"),
)
@click.option("--dialect", help="hami, volcano or koordinator, instead of the setting `dialects`.")
@forecast_options
@cluster_options
@page_options
@named_output_option
def explain(**options: Any) -> None:
    """Say why a pod waits and what would help, or why it is where it is.

    The engine decides the pod anew, with what the cluster is now: node by node which check fails, card by card by how
    much, and which smallest change of each kind would make it fit; and who would have to go for it, or is going, where
    a policy lets it preempt others. Of a bound pod it says where it would go today, and why there rather than where it
    is, beside what was written down when it was decided; of one that was evicted, for whom. With --forecast it says
    how long a pod has to wait, from how long pods have run: those that are there, or those of --log. Ends with 0 for a
    pod that is bound or would fit, with 1 for one that fits nowhere, or that waits for another scheduler, and with 2
    when that cannot be told. A pod behind scheduling gates ends as it would without them; of several pods the greatest
    counts.
    """
    run_module("explain", **options)
