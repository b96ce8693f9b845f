"""``vgpu-scheduler defrag``: which pods to move so that whole cards become free."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, namespace_option, offer, output_option, run_module


@click.command("defrag")
@click.option("--cards", "most", type=click.IntRange(min=1), help="Free so many cards; default: as many as can be.")
@click.option(
    "--for",
    "pod",
    metavar="[NAMESPACE/]NAME",
    shell_complete=offer("pods"),
    help="Plan the fewest moves so that this pod, which waits, fits: exact up to three, beyond that the best found.",
)
@namespace_option
@cluster_options
@output_option
def defrag(**options: Any) -> None:
    """Plan which pods to move so that whole cards become free.

    Only prints. Moves pods that a controller makes anew and whose disruption budgets allow it, from the cards with the
    least on them to cards that are used already, and names the pods that wait and would take what becomes free. With
    --for, moves the fewest pods that make room for one. Ends with 0 when a card can be freed, or that pod fits then,
    and with 1 otherwise.
    """
    if options["most"] and options["pod"]:
        raise click.UsageError("--cards and --for exclude each other")
    run_module("defrag", **options)
