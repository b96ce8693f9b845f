"""The page of one card: its usage, its pods, and how to take it out of service."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.reading import find_card
from vgpu_scheduler.ui.errors import NotFoundError
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import InvalidObjectsError, World
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage, as_json


@dataclass(frozen=True, slots=True)
class CardPage:
    """The content of a card's page.

    Attributes
    ----------
    command
        The command that cordons or uncordons the card; empty if its vendor's cards cannot be cordoned.
    """

    card: CardUsage
    command: str

    def as_json(self) -> list[dict[str, Any]]:
        """Return the card as plain values, as ``top cards NODE/CARD -o json`` does."""
        return [as_json(self.card)]


def card_page(world: World, node: str, name: str, visibility: Visibility) -> CardPage:
    """Return the page of a card, given its node and name.

    Parameters
    ----------
    visibility
        Which pods may be named.

    Raises
    ------
    NotFoundError
        If the card does not exist.
    """
    try:
        place = find_card(world, f"{node}/{name}")
    except InvalidObjectsError as error:
        raise NotFoundError(str(error)) from None
    found = [card for card in usage.cards_on(world, [place.node]) if card.card == place.name]
    if not found:
        raise NotFoundError(f"there is no card {node}/{name}")
    verb = "uncordon" if found[0].state == "cordoned" else "cordon"
    command = f"kubectl vgpu {verb} card {shlex.quote(str(place))}" if place.annotation else ""
    return CardPage(visibility.cards(found)[0], command)
