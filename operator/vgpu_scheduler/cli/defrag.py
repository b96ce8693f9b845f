"""Answers ``vgpu-scheduler defrag``."""

from __future__ import annotations

import json
from typing import Final

import click

from vgpu_scheduler.apiclient import pod_path
from vgpu_scheduler.cli.cluster.messages import fail, progress
from vgpu_scheduler.cli.cluster.namespaces import label_selector
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME, WIDE
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.cli.explain import pod_key
from vgpu_scheduler.cli.explain_from_pod import did_you_mean_pod
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import counted, names_model
from vgpu_scheduler.reading import ClusterOptions, why_no_more_in
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    MOST_MOVES,
    EvictionStep,
    InvalidObjectsError,
    Plan,
    RoomPlan,
    World,
    defrag,
    make_room,
)
from vgpu_scheduler.whatif.world.nodes import nodes_with
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.usage import cards
from vgpu_scheduler.whatif.world.usage_rows import CardUsage

_MOST_KEPT: Final = 3
"""The most nodes that are named on which room is kept for others."""


def run(
    *,
    most: int | None,
    pod: str | None,
    model: str,
    selector: str,
    namespace: str | None,
    cluster: ClusterOptions,
    output: str,
) -> None:
    """Print a plan."""
    if namespace is not None and pod is None:
        raise click.UsageError("-n is for the pod of --for: all pods of the cluster may be moved")
    if pod is not None and (model or selector):
        raise click.UsageError("--model and -l say which cards are to be freed; --for frees what its pod needs")
    with exit_on_error():
        labels = label_selector(selector)
        world, view = open_world(cluster, keeping=True)
        names = view.scheduler.settings.scheduler_names
        if pod is not None:
            _make_room(world, pod_key((pod,), namespace, cluster), view.scheduler.settings, output)
            return
        chosen = _chosen_cards(world, model, labels)
        plan = defrag(
            world, most or 0, names, lambda done, total: progress(f"{done} of {total} cards tried"), chosen.__contains__
        )
    progress("")
    if output in FOR_PEOPLE:
        nowhere = labels is not None and not nodes_with(world, labels)
        _show(plan, "no node has the labels of -l" if nowhere else _why_none(plan), wide=output == WIDE)
    elif output == NAME:
        for node, card in plan.freed:
            click.echo(f"card/{node}/{card}")
    else:
        dump(plan.as_json(), output)
    raise SystemExit(0 if plan.freed else 1)


class _Chosen:
    """The cards to free."""

    def __init__(self, world: World, model: str, labels: LabelSelector | None) -> None:
        self._model = model
        self._nodes = world.nodes.keys() if labels is None else nodes_with(world, labels)

    def __contains__(self, card: object) -> bool:
        assert isinstance(card, CardUsage)
        return card.node in self._nodes and names_model(self._model, card.model)


def _chosen_cards(world: World, model: str, labels: LabelSelector | None) -> _Chosen:
    """Return the cards of a model on nodes with some labels; print the matching models if there are several.

    Raises
    ------
    InvalidObjectsError
        If no card is of that model; the message names the existing models.
    """
    models = sorted({card.model for card in cards(world) if card.model})
    meant = [each for each in models if model and names_model(model, each)]
    if model and not meant:
        raise InvalidObjectsError(f"--model: no card is a {model}; there are {', '.join(models) or 'no cards'}")
    if len(meant) > 1:
        click.echo(
            f"--model {model} is a part of {len(meant)} models, and all of them count: {', '.join(meant)}", err=True
        )
    return _Chosen(world, model, labels)


def _show(plan: Plan, why_none: str, *, wide: bool) -> None:
    if plan.freed:
        moves = "1 move frees" if len(plan.moves) == 1 else f"{len(plan.moves)} moves free"
        click.echo(f"{moves} {counted(len(plan.freed), 'card')}{_fewer_than_asked(plan)}.\n")
        click.echo("1. Cordon, so that no other pod is placed there:")
        for node, card in plan.cordoned:
            note = "" if (node, card) in plan.freed else "   # idle, but a pod would be placed there"
            click.echo(f"   vgpu-scheduler cordon card {node}/{card}{note}")
        click.echo("\n2. Evict these pods, each when the one before it runs again:")
        rows = [
            (number, move.pod, f"{move.node}/{','.join(move.cards)}", f"{move.to_node}/{','.join(move.to_cards)}")
            for number, move in enumerate(plan.moves, 1)
        ]
        click.echo(table(rows, ("", "pod", "from", "to"), wide=wide, indent=3))
        click.echo(
            f"\n   Evict each by this command, which respects disruption budgets:\n   {_eviction('NAMESPACE/NAME')}"
        )
        click.echo("\n3. Uncordon:")
        for node, card in plan.cordoned:
            click.echo(f"   vgpu-scheduler uncordon card {node}/{card}")
        click.echo("\nThese cards become free:")
        for node, card in plan.freed:
            pods = plan.taken.get((node, card), ())
            taken = f"   # taken at once by {', '.join(pods)}, which {'waits' if len(pods) == 1 else 'wait'}"
            click.echo(f"   {node}/{card}{taken if pods else ''}")
    else:
        click.echo(f"No card can be freed{why_none and ': '}{why_none}.")
    if plan.freed and plan.waiting:
        some = "and would take" if plan.waiting == 1 else "and some would take"
        then = f"{some} {len(plan.taken)} of those" if plan.taken else "and would take none of those"
        wait = "waits" if plan.waiting == 1 else "wait"
        click.echo(f"{counted(plan.waiting, 'pod')} {wait} for cards, {then} that become free.", err=True)
    for reason, number in sorted(plan.stay.items()):
        click.echo(f"{number} {'card keeps its' if number == 1 else 'cards keep their'} pods ({reason}).", err=True)


def _why_none(plan: Plan) -> str:
    if not plan.idle:
        return "" if plan.stay else "no card has pods"
    some = "it" if plan.idle == 1 else f"{plan.idle_taken} of them"
    taken = f", and waiting pods that fit take {some} now" if plan.idle_taken else ""
    if plan.stay:
        return f"{plan.idle} {'is' if plan.idle == 1 else 'are'} idle already{taken}"
    return f"{'the only card is' if plan.idle == 1 else f'all {plan.idle} are'} idle already{taken}"


def _fewer_than_asked(plan: Plan) -> str:
    return f" of the {plan.asked} that were asked for: no moves that free more were found" * (
        len(plan.freed) < plan.asked
    )


def _eviction(key: str) -> str:
    """Return the command that evicts a pod; kubectl has no shorter one that respects disruption budgets."""
    namespace, _, name = key.partition("/")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name}}
    return f"echo '{json.dumps(body)}' | kubectl create -f - --raw {pod_path(namespace, name, 'eviction')}"


def _make_room(world: World, key: str, settings: Settings, output: str) -> None:
    """Print the fewest moves after which a pod fits."""
    names = settings.scheduler_names
    waiting = next((pod for pod in world.pending.values() if pod.key == key), None)
    if waiting is None:
        why = why_no_more_in(world, key, settings)
        meant = did_you_mean_pod(key, [pod.key for pod in world.pending.values()])
        fail(f"pod {key} {why}" if why else f"there is no pod {key} that waits{meant}")
    if waiting.scheduler_name not in names:
        fail(f"pod {key} is left to another scheduler: it names {waiting.scheduler_name or 'none'}")
    room = make_room(world, waiting, names, lambda asked: progress(f"{asked} placements tried"))
    progress("")
    if output in FOR_PEOPLE:
        _show_room(room)
    elif output == NAME:
        for move in () if room.taken_by else room.moves:  # do not suggest moves that do not help
            click.echo(f"pod/{move.pod}")
    else:
        dump(room.as_json(), output)
    raise SystemExit(0 if room.node and not room.taken_by else 1)


def _show_room(room: RoomPlan) -> None:
    click.echo(_verdict(room))
    steps = () if room.taken_by else room.steps  # do not suggest moves that do not help
    if steps:
        click.echo("")
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}. {_format_step(step)}")
        if step.move is not None:
            click.echo(f"   {_eviction(step.move.pod)}")


def _verdict(room: RoomPlan) -> str:
    """Say whether the pod will have room after all steps."""
    if not room.node:
        return _why_no_moves(room)
    place = f"{room.node}/{','.join(room.cards)}" if room.cards else room.node
    if room.taken_by:
        one, count = len(room.taken_by) == 1, len(room.moves)
        moves = f"{counted(count, 'move')} {'makes' if count == 1 else 'make'} room" if count else "there is room"
        if set(room.taken_by) <= set(room.as_old):
            return (
                f"{room.pod} may not get a place: {moves} on {place}, and {', '.join(room.taken_by)} may take it, which"
                f" {'waits' if one else 'wait'}, too: they have the same priority and were created in the same "
                "second, so which of them is served first is not known."
            )
        return (
            f"{room.pod} would not get a place: {moves} on {place}, and {', '.join(room.taken_by)}"
            f" {'takes' if one else 'take'} it, which {'waits' if one else 'wait'}, too, and"
            f" {'is' if one else 'are'} served first."
        )
    if not room.steps:
        return f"{room.pod} fits now, on {place}: no pod has to move."
    make = "1 move makes" if len(room.moves) == 1 else f"{len(room.moves)} moves make"
    fewer = "Fewer are not enough." if room.fewest else "Fewer may be enough: not everything was tried."
    if first := room.served_first:
        one = len(first) == 1
        served = f"{'it is' if one else 'they are'} served first"
        if not set(room.as_old).isdisjoint(first):
            served += ", or may be (created in the same second)"
        takes = f"{'takes' if one else 'take'} the first room, because {served}"
        fewer = f"{', '.join(first)} {takes}. {fewer}"
    return f"{make} room for {room.pod} on {place}. {fewer}"


def _why_no_moves(room: RoomPlan) -> str:
    """Say why there is no room for a pod, and which waiting pods keep their places."""
    stay = "".join(
        f"\n{counted(number, 'pod')} cannot be moved: {'it' if number == 1 else 'each'} {why}."
        for why, number in room.stay.items()
    )
    for node, pod in room.kept[:_MOST_KEPT]:
        stay += f"\nRoom on {node} is kept for pod {pod}, which is served first; no moves take it."
    if not room.leaves:
        return _without_moves(room) + stay
    waits, fits, their = ("waits", "fits", "its place") if len(room.leaves) == 1 else ("wait", "fit", "their places")
    which = f"{few(room.leaves, 'pods')}, which {waits}, too, and {fits} now"
    return f"{_without_moves(room)}{stay}\nAll moves leave {their} to {which}."


def _without_moves(room: RoomPlan) -> str:
    if room.held:
        return f"No moves help {room.pod}: {room.held}"
    if room.hopeless:
        every = "even without all pods that can be moved"
        return f"No moves make room for {room.pod}: {every}, {room.hopeless[0].lower()}{room.hopeless[1:]}"
    if room.fewest:
        return f"No moves that were found make room for {room.pod}, and up to {MOST_MOVES} certainly do not."
    return f"No moves that were found make room for {room.pod}; not everything was tried."


def _format_step(step: EvictionStep) -> str:
    if step.pods:
        return f"Wait until {' and '.join(step.pods)} {'runs' if len(step.pods) == 1 else 'run'}."
    if step.move is None:
        return f"vgpu-scheduler {step.type} card {'/'.join(step.node_card or ())}"
    move = step.move
    before, after = (f"{n}/{','.join(c)}" for n, c in ((move.node, move.cards), (move.to_node, move.to_cards)))
    return f"Evict {move.pod} from {before}, and wait until it runs again, on {after}."
