"""One card: what is used of it, by whom, and how it is taken out of service."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.reading import find_card
from vgpu_scheduler.ui.errors import NotFoundError
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility
from vgpu_scheduler.whatif import World, WorldError
from vgpu_scheduler.whatif.world import usage


@dataclass(frozen=True, slots=True)
class CardPage:
    """One card.

    Attributes
    ----------
    command
        Takes the card out of service, or brings it back; empty where cards of its vendor cannot be cordoned.
    """

    card: usage.CardUsage
    command: str

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values, as ``top cards NODE/CARD -o json`` does."""
        return [usage.as_json(self.card)]


def card_page(world: World, node: str, name: str, visibility: Visibility = EVERYTHING) -> CardPage:
    """Return a card by its node and its name.

    Parameters
    ----------
    visibility
        Which pods are named.

    Raises
    ------
    NotFoundError
        If there is no such card.
    """
    try:
        place = find_card(world, f"{node}/{name}")
    except WorldError as error:
        raise NotFoundError(str(error)) from None
    found = [card for card in usage.cards_on(world, [place.node]) if card.card == place.name]
    if not found:
        raise NotFoundError(f"there is no card {node}/{name}")
    verb = "uncordon" if found[0].state == "cordoned" else "cordon"
    command = f"kubectl vgpu {verb} card {shlex.quote(str(place))}" if place.annotation else ""
    return CardPage(visibility.cards(found)[0], command)
