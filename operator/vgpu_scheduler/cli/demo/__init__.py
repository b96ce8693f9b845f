"""``vgpu-scheduler demo``: a story in six steps on an embedded cluster, each number measured and checked."""

from __future__ import annotations

import asyncio
import sys

import click

from vgpu_scheduler.cli.demo.show import Show
from vgpu_scheduler.cli.demo.story import STEPS, Failure, Story


@click.command()
@click.option("--once", is_flag=True, help="No pauses, no colours: run the six checks and end with OK or a failure.")
@click.option("--pods", default=200, show_default=True, help="Slices in a burst.")
@click.option("--keep-log", type=click.Path(dir_okay=False), help="Write the operator's log here.")
def demo(once: bool, pods: int, keep_log: str | None) -> None:
    """Show placements on an embedded cluster with simulated cards."""
    show = Show(live=sys.stdout.isatty() and not once)
    try:
        asyncio.run(Story(show, pods, keep_log).tell())
    except Failure as failure:
        click.echo(f"FAILED: {failure}")
        sys.exit(1)
    click.echo(f"OK {len(STEPS)}/{len(STEPS)}")
