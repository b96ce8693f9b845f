"""Find cards by name or by a unique prefix of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vgpu_scheduler.kube import HOSTNAME
from vgpu_scheduler.model import did_you_mean, first_of
from vgpu_scheduler.whatif import InvalidObjectsError, World, card_name

_KINDS = ("card/", "cards/")
"""Prefixes of names, as ``-o name`` writes them."""
_MOST_CANDIDATES = 10


class CardPlace(NamedTuple):
    """A card and its node.

    Attributes
    ----------
    name
        The card's name as ``top cards`` shows it.
    uuid
        The card's UUID in its dialect.
    annotation
        The annotation of the node that lists cordoned cards; empty if cards of this vendor cannot be cordoned.
    """

    node: str
    name: str
    uuid: str
    vendor: str
    annotation: str

    def __str__(self) -> str:
        """Return an unambiguous name."""
        return f"{self.node}/{self.name}"


def card_places(world: World, nodes: Iterable[str] | None = None) -> Iterator[CardPlace]:
    """Yield all cards, or those of some nodes, by node; a card that two dialects register comes twice."""
    for node, dialect, device in world.listed_devices(nodes=sorted(world.nodes if nodes is None else nodes)):
        if not device.part:
            name, annotation = card_name(device.vendor, device.uuid), dialect.inventory.cordons.get(device.vendor, "")
            yield CardPlace(node, name, device.uuid, device.vendor, annotation)


def find_card(world: World, name: str) -> CardPlace:
    """Return the card with a name or UUID; see :func:`find_card_among`."""
    meant = _meant(name)
    node = meant.partition("/")[0]
    places = card_places(world, [node] if node != meant and node in world.nodes else None)
    return find_card_among(places, name, _if_node(world, meant))


def _meant(name: str) -> str:
    return next((name.removeprefix(kind) for kind in _KINDS if name.startswith(kind)), name).removesuffix("…")


def find_card_among(cards: Iterable[CardPlace], name: str, is_node: str = "") -> CardPlace:
    """Return the card with a name or UUID, or with a unique prefix of either, optionally as ``NODE/CARD``.

    A name that a table has truncated is such a prefix.

    Parameters
    ----------
    is_node
        The end of messages if the name is that of a node; else empty.

    Raises
    ------
    InvalidObjectsError
        If there is no such card, or several; the message lists them.
    """
    places, meant = list(cards), _meant(name)
    found = [place for place in places if meant in _names(place)] or [
        place for place in places if meant and any(known.startswith(meant) for known in _names(place))
    ]
    if not found:
        if is_node:
            raise InvalidObjectsError(f"there is no card {name}{is_node}")
        alike = did_you_mean(meant, (known for place in places for known in _names(place)))
        raise InvalidObjectsError(f"there is no card {name}{alike or ':'} `vgpu-scheduler top cards` lists all cards")
    candidates = list(dict.fromkeys(map(str, found)))
    if len(candidates) > 1:
        on_node = ", or NODE/CARD" if "/" not in meant and len({place.node for place in found}) > 1 else ""
        which = first_of(candidates, _MOST_CANDIDATES)
        raise InvalidObjectsError(f"card {name} may be {which}: write a longer part of its name{on_node}{is_node}")
    return next((place for place in found if place.annotation), found[0])


def _if_node(world: World, name: str) -> str:
    """Return how the cards of a node are listed; empty if there is no node of that name."""
    if name not in world.nodes:
        return ""
    hostname = (world.nodes[name]["metadata"].get("labels") or {}).get(HOSTNAME, "")
    how = f": `vgpu-scheduler top cards -l {HOSTNAME}={hostname}` lists its cards" if hostname else ""
    return f"; {name} is a node{how}"


def _names(place: CardPlace) -> set[str]:
    return {place.uuid, place.name, f"{place.node}/{place.uuid}", f"{place.node}/{place.name}"}
