"""``vgpu-scheduler explain``: explains why a pod waits, or why it was placed where it is."""

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
@click.option("-l", "--selector", default="", help="Explain all pods of the namespace with these labels: app=web,!old.")
@namespace_option
@click.option(
    "--node",
    default="",
    help="Show the answers of this node's cards; for a bound pod, compare this node with its own.",
    shell_complete=offer("nodes"),
)
@click.option("--dialect", help="Dialect: hami, volcano or koordinator, instead of the setting `dialects`.")
@forecast_options
@cluster_options
@page_options
@named_output_option
def explain(**options: Any) -> None:
    """Explain why a pod waits and what would help, or why it is on its node.

    The engine decides the pod anew on the present cluster. Shows for each node which check fails, for each card by how
    much, and the smallest change of each kind that would make the pod fit; where a policy lets the pod preempt others,
    also the pods that would be, or are being, evicted for it. For a bound pod, shows where it would go today and why
    it would go there instead, beside the decision recorded at the time; for an evicted pod, the pod that it was evicted
    for. With --forecast, estimates how long the pod has to wait, from the running times of the existing pods, or of
    those in --log. Exits with 0 if the pod is bound or would fit, with 1 if it fits nowhere or waits for another
    scheduler, and with 2 if that cannot be determined. Scheduling gates do not change the exit code; of several pods
    the highest counts.
    """
    run_module("explain", **options)
