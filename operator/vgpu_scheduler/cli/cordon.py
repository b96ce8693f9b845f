"""Carries out ``vgpu-scheduler cordon`` and ``uncordon``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import click

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiClient
from vgpu_scheduler.cli.cluster.messages import fail
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.view import connect_to, read_live_cluster
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world
from vgpu_scheduler.whatif import World, WorldError, card_name, listed_cards

_CONFLICT: Final = 409
_ATTEMPTS: Final = 5
_KINDS: Final = frozenset({"Node"})
_WORDS: Final = frozenset({"card", "cards"})


def run(*, words: Sequence[str], on: bool, cluster: ClusterOptions) -> None:
    """Cordon cards, or uncordon them."""
    named = [word for number, word in enumerate(words) if number or word not in _WORDS]
    if not named:
        raise click.UsageError("name a card, as `vgpu-scheduler top cards` shows it")
    with exit_on_error():
        asyncio.run(_all(named, on=on, cluster=cluster))


async def _all(named: Sequence[str], *, on: bool, cluster: ClusterOptions) -> None:
    api = await connect_to(cluster)
    try:
        for name in named:
            await _one(api, cluster, name, on=on)
    finally:
        await api.close()


async def _one(api: ApiClient, cluster: ClusterOptions, name: str, *, on: bool) -> None:
    """Write the annotation of a card's node; somebody else may write the node meanwhile."""
    done = "cordoned" if on else "uncordoned"
    for _ in range(_ATTEMPTS):
        world = make_world(await read_live_cluster(api, cluster, kinds=_KINDS))
        node, card, key = find_card(world, name)
        metadata = world.nodes[node]["metadata"]
        listed = listed_cards(world.nodes[node], key)
        if (card in listed) == on:
            click.echo(f"card {node}/{card} is {done} already")
            return
        cards = [*listed, card] if on else [other for other in listed if other != card]
        change = {"resourceVersion": metadata.get("resourceVersion"), "annotations": {key: ",".join(cards) or None}}
        response = await api.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": change}, content_type=MERGE_PATCH)
        if response.ok:
            click.echo(f"card {node}/{card} {done}")
            return
        if response.status != _CONFLICT:
            fail(f"node {node}: {response.message}")
    fail(f"node {node}: it is written too often; try again")


def find_card(world: World, name: str) -> tuple[str, str, str]:
    """Return a card's node, its name, and the annotation that cordons it.

    Raises
    ------
    WorldError
        If there is no such card, if nodes share it, or if cards of its maker cannot be cordoned.
    """
    found = [
        (node, card_name(device.vendor, device.uuid), dialect.inventory.cordons.get(device.vendor, ""), device.vendor)
        for node in sorted(world.nodes)
        for dialect in world.engine.dialects
        for device in world.devices(node, dialect.name)
        if name in {device.uuid, card_name(device.vendor, device.uuid), f"{node}/{device.uuid}"}
    ]
    if not found:
        raise WorldError(f"there is no card {name}: `vgpu-scheduler top cards` shows what there is")
    if len({node for node, *_ in found}) > 1:
        nodes = ", ".join(node for node, *_ in found)
        raise WorldError(f"card {name} is on nodes {nodes}: write NODE/{name}")
    node, card, key, vendor = found[0]
    if not key:
        raise WorldError(f"card {card}: cards of {vendor} have no annotation that cordons them; cordon node {node}")
    return node, card, key
