"""Carries out ``vgpu-scheduler cordon`` and ``uncordon``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiClient
from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.view import connect_to, read_live_cluster
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world
from vgpu_scheduler.kube import decode_json
from vgpu_scheduler.whatif import World, WorldError, card_name, listed_cards

_CONFLICT: Final = 409
_ATTEMPTS: Final = 5
_KINDS: Final = frozenset({"Node"})
_WORDS: Final = frozenset({"card", "cards"})


def run(*, words: Sequence[str], on: bool, cluster: ClusterOptions) -> None:
    """Cordon cards, or uncordon them."""
    names = [word for number, word in enumerate(words) if number or word not in _WORDS]
    if not names:
        raise click.UsageError("name a card, as `vgpu-scheduler top cards` shows it")
    with exit_on_error():
        asyncio.run(_cordon(names, cluster, on=on))


async def _cordon(names: Sequence[str], cluster: ClusterOptions, *, on: bool) -> None:
    """Find all cards before the first write, so that a wrong name leaves everything as it is."""
    api = await connect_to(cluster)
    try:
        world = make_world(await read_live_cluster(api, cluster, kinds=_KINDS))
        cards = dict.fromkeys(find_card(world, name) for name in names)
        for node, key in dict.fromkeys((card.node, card.annotation) for card in cards):
            names_there = [card.name for card in cards if (card.node, card.annotation) == (node, key)]
            await _write(api, world.nodes[node], key, names_there, on=on)
    finally:
        await api.close()


async def _write(api: ApiClient, node: Mapping[str, Any], key: str, cards: Sequence[str], *, on: bool) -> None:
    """Write the annotation of a node; where somebody else has written the node meanwhile, read it again."""
    name, done = node["metadata"]["name"], "cordoned" if on else "uncordoned"
    path = f"/api/v1/nodes/{name}"
    for _ in range(_ATTEMPTS):
        listed = listed_cards(node, key)
        changed = [card for card in cards if (card in listed) != on]
        after = [*listed, *changed] if on else [card for card in listed if card not in cards]
        if changed:
            version = node["metadata"].get("resourceVersion")
            change = {"resourceVersion": version, "annotations": {key: ",".join(after) or None}}
            response = await api.request("PATCH", path, {"metadata": change}, content_type=MERGE_PATCH)
            if response.status == _CONFLICT:
                response = await api.request("GET", path)
                if response.ok:
                    node = decode_json(response.body)
                    continue
            if not response.ok:
                fail(f"node {name}: {response.message}")
        for card in cards:
            click.echo(f"card {name}/{card} {done if card in changed else f'is {done} already'}")
        return
    fail(f"node {name}: it is written too often; try again")


class CardPlace(NamedTuple):
    """A card that can be cordoned.

    Attributes
    ----------
    annotation
        The annotation of its node that lists cordoned cards.
    """

    node: str
    name: str
    annotation: str


def find_card(world: World, name: str) -> CardPlace:
    """Return the card of a name, which may be ``NODE/CARD``.

    Raises
    ------
    WorldError
        If there is no such card, if nodes share it, or if cards of its maker cannot be cordoned.
    """
    found = [
        (CardPlace(node, shown, dialect.inventory.cordons.get(device.vendor, "")), device.vendor)
        for node in sorted(world.nodes)
        for dialect in world.engine.dialects
        for device in world.devices(node, dialect.name)
        if name in _names(node, device.uuid, shown := card_name(device.vendor, device.uuid))
    ]
    if not found:
        raise WorldError(f"there is no card {name}: `vgpu-scheduler top cards` shows what there is")
    if len({card.node for card, _ in found}) > 1:
        nodes = ", ".join(card.node for card, _ in found)
        raise WorldError(f"card {name} is on nodes {nodes}: write NODE/{name}")
    card, vendor = next((each for each in found if each[0].annotation), found[0])
    if not card.annotation:
        raise WorldError(
            f"card {card.name}: cards of {vendor} have no annotation that cordons them; cordon node {card.node}"
        )
    return card


def _names(node: str, uuid: str, shown: str) -> set[str]:
    return {uuid, shown, f"{node}/{uuid}", f"{node}/{shown}"}
