"""``vgpu-scheduler cordon`` and ``uncordon``: take single cards out of service, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import CLIENT, NONE, SERVER, ClusterOptions, cluster_options, run_module


def _of_cards(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both take."""
    dry_run = click.option(
        "--dry-run",
        type=click.Choice([NONE, CLIENT, SERVER]),
        default=NONE,
        show_default=True,
        is_flag=False,
        flag_value=CLIENT,
        help="Only say what would be done, or have the API server check it and write nothing.",
    )
    cards = click.argument("words", nargs=-1, required=True, metavar="[card] CARD...")
    return cards(cluster_options(dry_run(command)))


@click.command("cordon")
@_of_cards
def cordon(**options: Any) -> None:
    """Take cards out of service.

    What runs there goes on, nothing new comes. Writes the annotation that the cards' device plugin and every scheduler
    of its dialect follow, with your own rights; cards that have none are refused by name. A card is named as `top
    cards` shows it, by its UUID, or by a beginning of either that no other card has, also as NODE/CARD.
    """
    _run(on=True, **options)


@click.command("uncordon")
@_of_cards
def uncordon(**options: Any) -> None:
    """Put cards that were cordoned back into service."""
    _run(on=False, **options)


def _run(*, cluster: ClusterOptions, dry_run: str, **options: Any) -> None:
    if cluster.files and dry_run != CLIENT:
        raise click.UsageError("--cluster is a copy, to which nothing is written: add --dry-run")
    run_module("cordon", cluster=cluster, dry_run=dry_run, **options)
