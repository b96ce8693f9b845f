"""Answers ``vgpu-scheduler defrag``."""

from __future__ import annotations

import click

from vgpu_scheduler.cli.cluster.messages import progress
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, ClusterOptions
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.whatif import Plan, defrag


def run(*, most: int | None, cluster: ClusterOptions, output: str) -> None:
    """Print a plan."""
    with exit_on_error():
        world, view = open_world(cluster)
        names = view.scheduler.settings.scheduler_names
        plan = defrag(world, most or 0, names, lambda done, total: progress(f"{done} of {total} cards tried"))
    progress("")
    if output in FOR_PEOPLE:
        _show(plan)
    else:
        dump(plan.as_json(), output)
    raise SystemExit(0 if plan.freed else 1)


def _show(plan: Plan) -> None:
    if plan.freed:
        moves = "1 move frees" if len(plan.moves) == 1 else f"{len(plan.moves)} moves free"
        click.echo(f"{moves} {len(plan.freed)} {'card' if len(plan.freed) == 1 else 'cards'}.\n")
        click.echo("1. Cordon, so that nothing else goes there:")
        for node, card in plan.cordoned:
            note = "" if (node, card) in plan.freed else "   # idle, and a pod would go there"
            click.echo(f"   vgpu-scheduler cordon card {card}{note}")
        click.echo("\n2. Evict these pods, each when the one before runs again:")
        rows = [
            (number, move.pod, f"{move.node}/{','.join(move.cards)}", f"{move.to_node}/{','.join(move.to_cards)}")
            for number, move in enumerate(plan.moves, 1)
        ]
        click.echo("   " + table(rows, ("", "pod", "from", "to")).replace("\n", "\n   "))
        click.echo("\n3. Uncordon:")
        for _, card in plan.cordoned:
            click.echo(f"   vgpu-scheduler uncordon card {card}")
        click.echo("\nFree will be:")
        for node, card in plan.freed:
            pods = plan.taken.get((node, card), ())
            taken = f"   # taken at once by {', '.join(pods)}, which {'waits' if len(pods) == 1 else 'wait'}"
            click.echo(f"   {node}/{card}{taken if pods else ''}")
    else:
        click.echo("No card can be freed.")
    if plan.freed and plan.waiting:
        some = "and would take" if plan.waiting == 1 else "and some would take"
        then = f"{some} {len(plan.taken)} of those" if plan.taken else "and would take none of those"
        count = "1 pod waits" if plan.waiting == 1 else f"{plan.waiting} pods wait"
        click.echo(f"{count} for cards, {then} that become free.", err=True)
    for reason, number in sorted(plan.stay.items()):
        click.echo(f"{number} {'card keeps its' if number == 1 else 'cards keep their'} pods ({reason}).", err=True)
