"""``vgpu-scheduler cordon`` and ``uncordon``: take single cards out of service, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import CLIENT, NONE, SERVER, cluster_options, offer, run_module
from vgpu_scheduler.reading import ClusterOptions

_DRY_RUN = "--dry-run"


class _Cordoning(click.Command):
    """A command whose ``--dry-run`` takes a value only after an equals sign, as in kubectl."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let the option stand by itself: the word that follows is a card."""
        return super().parse_args(ctx, [f"{word}={CLIENT}" if word == _DRY_RUN else word for word in args])


def _of_cards(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options of both commands."""
    dry_run = click.option(
        _DRY_RUN,
        type=click.Choice([NONE, CLIENT, SERVER]),
        default=NONE,
        show_default=True,
        help="Write nothing: only print the changes (client), or also have the API server check them (server);"
        f" without a value: {CLIENT}.",
    )
    cards = click.argument("words", nargs=-1, metavar="[card] CARD...", shell_complete=offer("cards"))
    nodes = click.option(
        "-l", "--selector", default="", help="Select all cards of the nodes with these labels: pool=old."
    )
    return cards(cluster_options(nodes(dry_run(command))))


@click.command("cordon", cls=_Cordoning)
@_of_cards
def cordon(**options: Any) -> None:
    """Take cards out of service.

    Pods on these cards keep running; no new pods are placed there. With your own rights, writes the annotation that
    the cards' device plugin and every scheduler of its dialect follow; cards without such an annotation are refused,
    each by name. Name a card as `top cards` shows it, by its UUID, or by a unique prefix of either, also as NODE/CARD.
    """
    _run(on=True, **options)


@click.command("uncordon", cls=_Cordoning)
@_of_cards
def uncordon(**options: Any) -> None:
    """Put cordoned cards back into service."""
    _run(on=False, **options)


def _run(*, cluster: ClusterOptions, dry_run: str, **options: Any) -> None:
    if cluster.files and dry_run == SERVER:
        raise click.UsageError("--cluster reads files, which no API server can check: write --dry-run=client")
    if cluster.files and dry_run == NONE:
        raise click.UsageError("--cluster reads files, to which nothing is written: add --dry-run")
    run_module("cordon", cluster=cluster, dry_run=dry_run, **options)
