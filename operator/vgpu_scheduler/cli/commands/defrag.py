"""``vgpu-scheduler defrag``: which pods to move so that whole cards become free."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, named_output_option, namespace_option, offer, run_module


@click.command("defrag")
@click.option("--cards", "most", type=click.IntRange(min=1), help="Free so many cards; default: as many as can be.")
@click.option(
    "--for",
    "pod",
    metavar="[NAMESPACE/]NAME",
    shell_complete=offer("pods"),
    help="Plan the fewest moves so that this pod, which waits, fits: exact up to three, beyond that the best found.",
)
@click.option("--model", default="", help="Free cards of this model alone; a part of its name is enough.")
@click.option("-l", "--selector", default="", help="Free cards of nodes with these labels alone: pool=shared,!old.")
@namespace_option
@cluster_options
@named_output_option
def defrag(**options: Any) -> None:
    """Plan which pods to move so that whole cards become free.

    Only prints. Moves pods that a controller makes anew and whose disruption budgets allow it, from the cards with the
    least on them to cards that are used already, and names the pods that wait and would take what becomes free. With
    --for, moves the fewest pods that make room for one; what holds that pod and no move changes, such as a quota, is
    said instead of a plan. Ends with 0 when a card can be freed, or that pod fits then, and with 1 otherwise.
    """
    if options["most"] and options["pod"]:
        raise click.UsageError("--cards and --for exclude each other")
    run_module("defrag", **options)
