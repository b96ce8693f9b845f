"""Cards by their names: as ``top cards`` shows them, and as much of that as says which one is meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vgpu_scheduler.model import first_of
from vgpu_scheduler.whatif import World, WorldError, card_name

__all__ = ["CardPlace", "card_places", "find_card"]

_KINDS = ("card/", "cards/")
"""What may stand before a name, as ``-o name`` writes it."""
_MOST_CANDIDATES = 10


class CardPlace(NamedTuple):
    """A card and where it is.

    Attributes
    ----------
    name
        As ``top cards`` shows it.
    uuid
        As its dialect knows it.
    annotation
        The annotation of its node that lists cordoned cards; empty where cards of its vendor cannot be cordoned.
    """

    node: str
    name: str
    uuid: str
    vendor: str
    annotation: str

    def __str__(self) -> str:
        """Name it so that nothing else is meant."""
        return f"{self.node}/{self.name}"


def card_places(world: World, nodes: Iterable[str] | None = None) -> Iterator[CardPlace]:
    """Yield all cards, or those of some nodes, by node; one that two dialects know comes twice."""
    for node, dialect, device in world.listed_devices(nodes=sorted(world.nodes if nodes is None else nodes)):
        if not device.part:
            name, annotation = card_name(device.vendor, device.uuid), dialect.inventory.cordons.get(device.vendor, "")
            yield CardPlace(node, name, device.uuid, device.vendor, annotation)


def find_card(world: World, name: str) -> CardPlace:
    """Return the card of a name: its own or its UUID, or a beginning that no other card has, also as ``NODE/CARD``.

    A name that a table cut short is such a beginning.

    Raises
    ------
    WorldError
        If there is no such card, or several; the message lists them.
    """
    meant = next((name.removeprefix(kind) for kind in _KINDS if name.startswith(kind)), name).removesuffix("…")
    node = meant.partition("/")[0]
    places = list(card_places(world, [node] if node != meant and node in world.nodes else None))
    found = [place for place in places if meant in _names(place)] or [
        place for place in places if meant and any(known.startswith(meant) for known in _names(place))
    ]
    if not found:
        raise WorldError(f"there is no card {name}: `vgpu-scheduler top cards` shows what there is")
    candidates = list(dict.fromkeys(map(str, found)))
    if len(candidates) > 1:
        on_node = ", or NODE/CARD" if "/" not in meant and len({place.node for place in found}) > 1 else ""
        is_node = f"; {meant} is a node, too" if meant in world.nodes else ""
        which = first_of(candidates, _MOST_CANDIDATES)
        raise WorldError(f"card {name} may be {which}: write more of it{on_node}{is_node}")
    return next((place for place in found if place.annotation), found[0])


def _names(place: CardPlace) -> set[str]:
    return {place.uuid, place.name, f"{place.node}/{place.uuid}", f"{place.node}/{place.name}"}
