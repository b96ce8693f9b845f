"""``vgpu-scheduler top``: shows the usage of cards."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import (
    cluster_options,
    listing_options,
    namespace_options,
    offer,
    page_options,
    run_module,
)
from vgpu_scheduler.reading import STDIN, ClusterOptions

SUBJECTS = ("nodes", "cards", "models", "pods", "namespaces")


class _Subject(click.Choice[str]):
    """One of the subjects; the singular is understood, as kubectl understands it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the subject."""
        plural = f"{value}s"
        return super().convert(plural if plural in self.choices else value, param, ctx)


@click.command("top")
@click.argument("subject", type=_Subject(SUBJECTS), default="nodes")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=offer())
@namespace_options
@cluster_options
@page_options
@listing_options
@click.option("-w", "--watch", is_flag=True, help="Refresh the output until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    help="Seconds between refreshes with -w.",
)
def top(*, watch: bool, cluster: ClusterOptions, **options: Any) -> None:
    """Show the usage of cards.

    Shows all nodes, cards, models, pods or namespaces, or those that are named; named nodes are shown with their cards
    and pods. -l selects nodes by their labels, with their cards and models, and pods and namespaces by their own
    labels. The beginning of a UUID is enough to name a card, and a part of its name to name a model. Compute is in
    percent of a card. FRAG is the share of the free memory that is on partly used cards, where pods that want whole
    cards cannot use it. Unhealthy and cordoned cards count as capacity, but not as free.
    """
    if watch and STDIN in cluster.files:
        raise click.UsageError("-w reads the cluster again and again, and stdin can be read only once: give a file")
    run_module("top", watch=watch, cluster=cluster, **options)
