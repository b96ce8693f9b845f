"""``vgpu-scheduler usage``: how long who has held how much."""

from __future__ import annotations

import re
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, namespace_option, output_option, run_module

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_MOST_SECONDS = 400 * 86400


class _Window(click.ParamType[int]):
    """How far back: a number with a unit, in seconds."""

    name = "DURATION"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([1-9][0-9]{0,7})([mhdw])", value)
        if found is None:
            self.fail(f"{value!r} is no duration: write 12h, 1d or 4w", param, ctx)
        seconds = int(found[1]) * _SECONDS[found[2]]
        if seconds > _MOST_SECONDS:
            self.fail(f"{value!r} is more than 400d", param, ctx)
        return seconds


@click.command("usage")
@cluster_options
@namespace_option
@click.option("--since", type=_Window(), default="1d", show_default=True, help="How far back: 12h, 7d, 4w.")
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
    they started: nobody knows of those that have ended.
    """
    run_module("usage", **options)
