"""``vgpu-scheduler defrag``: which pods to move so that whole cards become free."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, named_output_option, namespace_option, offer, run_module


@click.command("defrag")
@click.option(
    "--cards", "most", type=click.IntRange(min=1), help="Number of cards to free; default: as many as possible."
)
@click.option(
    "--for",
    "pod",
    metavar="[NAMESPACE/]NAME",
    shell_complete=offer("pods"),
    help="Plan the fewest moves that make this waiting pod fit: up to three are exact, more are the best found.",
)
@click.option("--model", default="", help="Free only cards of this model; a part of its name is enough.")
@click.option("-l", "--selector", default="", help="Free only cards of nodes with these labels: pool=shared,!old.")
@namespace_option
@cluster_options
@named_output_option
def defrag(**options: Any) -> None:
    """Plan which pods to move so that whole cards become free.

    Only prints the plan. It moves pods that a controller recreates and whose disruption budgets allow it, from the
    least used cards to other cards in use, and names the waiting pods that would take the freed cards. With --for, it
    moves the fewest pods that make room for one pod; if moves cannot help that pod, because of a quota for example,
    prints the cause instead. Exits with 0 if a card can be freed or that pod then fits, and with 1 otherwise.
    """
    if options["most"] and options["pod"]:
        raise click.UsageError("--cards and --for exclude each other")
    run_module("defrag", **options)
