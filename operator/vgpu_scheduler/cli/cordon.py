"""Carries out ``vgpu-scheduler cordon`` and ``uncordon``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import click

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiClient, node_path
from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.cluster.namespaces import label_selector
from vgpu_scheduler.cli.cluster.options import CLIENT, NONE, SERVER
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world
from vgpu_scheduler.kube import LabelSelector, decode_json
from vgpu_scheduler.model import by_name, counted
from vgpu_scheduler.reading import (
    CardPlace,
    ClusterOptions,
    card_places,
    connect_to,
    find_card,
    read_cluster,
    read_live_cluster,
)
from vgpu_scheduler.whatif import InvalidObjectsError, World, listed_cards
from vgpu_scheduler.whatif.world.nodes import nodes_with

_ATTEMPTS: Final = 5
_KINDS: Final = frozenset({"Node"})
_TRIED: Final = {NONE: "", CLIENT: " (dry run)", SERVER: " (server dry run)"}
_WORDS: Final = frozenset({"card", "cards"})


def run(*, words: Sequence[str], selector: str, on: bool, dry_run: str, cluster: ClusterOptions) -> None:
    """Cordon or uncordon cards."""
    names = [word for number, word in enumerate(words) if number or word not in _WORDS]
    if names and selector:
        raise click.UsageError(f"-l selects nodes by their labels: leave {', '.join(names)} out, or -l")
    if not names and not selector:
        raise click.UsageError(
            "name cards, as `vgpu-scheduler top cards` shows them, or select nodes by their labels with -l"
        )
    labels = label_selector(selector)
    with exit_on_error():
        if cluster.files:
            world = make_world(read_cluster(cluster))
            for node, key, cards in _chosen(world, names, labels):
                _tell(node, cards, _change(world.nodes[node], key, cards, on=on).changed, on=on, dry_run=dry_run)
            return
        asyncio.run(_cordon(names, labels, cluster, on=on, dry_run=dry_run))


async def _cordon(
    names: Sequence[str], labels: LabelSelector | None, cluster: ClusterOptions, *, on: bool, dry_run: str
) -> None:
    """Find all cards before the first write, so that a wrong name changes nothing."""
    async with await connect_to(cluster) as api:
        world = make_world(await read_live_cluster(api, cluster, kinds=_KINDS))
        for node, key, cards in _chosen(world, names, labels):
            changed = await _write(api, world.nodes[node], key, cards, on=on, dry_run=dry_run)
            _tell(node, cards, changed, on=on, dry_run=dry_run)


def _chosen(world: World, names: Sequence[str], labels: LabelSelector | None) -> list[tuple[str, str, list[str]]]:
    """Return the named cards, or those of nodes with some labels, by node and by the annotation that cordons them.

    Raises
    ------
    InvalidObjectsError
        If cards cannot be cordoned, or no card is selected.
    """
    if labels is None:
        cards = [find_card(world, name) for name in names]
    else:
        nodes = nodes_with(world, labels)
        cards = list(card_places(world, nodes))
        if not cards:
            without = f" ({counted(len(nodes), 'node')} without)" if nodes else ""
            raise InvalidObjectsError(f"no node with cards has the labels of -l{without}")
    found: dict[tuple[str, str], dict[str, None]] = {}
    _check_cordonable(cards)
    for card in cards:
        found.setdefault((card.node, card.annotation), {})[card.name] = None
    return [(node, key, list(cards)) for (node, key), cards in found.items()]


def _tell(node: str, cards: Sequence[str], changed: Collection[str], *, on: bool, dry_run: str) -> None:
    done, tried = "cordoned" if on else "uncordoned", _TRIED[dry_run]
    for card in cards:
        click.echo(f"card {node}/{card} {done if card in changed else f'is {done} already'}{tried}")


def _check_cordonable(cards: Iterable[CardPlace]) -> None:
    """Check that cards can be cordoned.

    Raises
    ------
    InvalidObjectsError
        If cards of a vendor cannot be cordoned; the message names each of them.
    """
    without: dict[str, dict[str, None]] = {}
    for card in cards:
        if not card.annotation:
            without.setdefault(card.node, {})[card.name] = None
    if without:
        said = (
            f"{by_name('card', list(names))} {'have' if len(names) > 1 else 'has'} no annotation that cordons "
            f"{'them' if len(names) > 1 else 'it'}; cordon node {node}"
            for node, names in without.items()
        )
        raise InvalidObjectsError("; ".join(said))


class _Change(NamedTuple):
    """A change of the annotation of a node.

    Attributes
    ----------
    changed
        The cards to add or remove.
    after
        The cards in the annotation after the change.
    """

    changed: list[str]
    after: list[str]


def _change(node: Mapping[str, Any], key: str, cards: Sequence[str], *, on: bool) -> _Change:
    listed = listed_cards(node, key)
    changed = [card for card in cards if (card in listed) != on]
    return _Change(changed, [*listed, *changed] if on else [card for card in listed if card not in cards])


async def _write(
    api: ApiClient, node: Mapping[str, Any], key: str, cards: Sequence[str], *, on: bool, dry_run: str
) -> list[str]:
    """Write the annotation of a node; after a conflict, read the node and try again.

    Returns
    -------
    list of str
        The cards that changed.
    """
    name = node["metadata"]["name"]
    path = node_path(name)
    for _ in range(_ATTEMPTS):
        changed, after = _change(node, key, cards, on=on)
        if not changed or dry_run == CLIENT:
            return changed
        version = node["metadata"].get("resourceVersion")
        change = {"metadata": {"resourceVersion": version, "annotations": {key: ",".join(after) or None}}}
        checked_only = {"dryRun": "All"} if dry_run == SERVER else None
        response = await api.request("PATCH", path, change, content_type=MERGE_PATCH, params=checked_only)
        if response.status == HTTPStatus.CONFLICT:
            response = await api.request("GET", path)
            if response.ok:
                node = decode_json(response.body)
                continue
        if not response.ok:
            fail(f"node {name}: {response.message}")
        return changed
    raise InvalidObjectsError(f"node {name}: it changes too often; try again")
