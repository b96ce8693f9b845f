"""``vgpu-scheduler ui``: the cluster in a browser."""

from __future__ import annotations

from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import cluster_options, run_module

_MOST_PORT = 65535


@click.command("ui")
@cluster_options
@click.option(
    "--port", type=click.IntRange(0, _MOST_PORT), default=0, show_default=True, help="0 takes one that is free."
)
def ui(**options: Any) -> None:
    """Show the cluster in a browser, without changing anything.

    Pages show cards as a heat map, why pods wait and what would help, with the values of `top` and `explain`, and
    follow the cluster while they are open. The page is served on the loopback address to the browser that opens the
    address which is printed: that has a key. It reads the cluster with your own rights.
    """
    run_module("ui", **options)
