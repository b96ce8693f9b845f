"""The cards page: all cards as a heat map, by node and by a label of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.model import names_model
from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError
from vgpu_scheduler.ui.pages.heat import MEASURES, HeatMap, heat_map, labels_of
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import PLUGIN_SILENT, CardUsage, as_json

STATES: Final = ("ready", "unhealthy", "cordoned", PLUGIN_SILENT)
PARAMETERS: Final = ("by", "group", "node", "model", "state")


@dataclass(frozen=True, slots=True)
class CardsView:
    """Which cards to show, and how; empty texts select all.

    Attributes
    ----------
    by
        The measure that colours the tiles.
    group
        The node label to group by.
    model
        A substring of the model's name.
    """

    by: str = "memory"
    group: str = ""
    node: str = ""
    model: str = ""
    state: str = ""

    @classmethod
    def of(cls, query: Query) -> CardsView:
        """Read the view from an address.

        Raises
        ------
        BadQueryError
            If a value is not allowed.
        """
        state = query.get("state") and query.choice("state", STATES)
        return cls(query.choice("by", MEASURES), query.get("group"), query.get("node"), query.get("model"), state)


@dataclass(frozen=True, slots=True)
class CardsPage:
    """The content of the cards page.

    Attributes
    ----------
    labels
        The node labels that are available for grouping.
    states
        The states of cards to choose from.
    """

    view: CardsView
    cards: Sequence[CardUsage]
    heat: HeatMap
    labels: Sequence[str]
    models: Sequence[str]
    states: Sequence[str] = STATES

    def as_json(self) -> list[dict[str, Any]]:
        """Return the cards as plain values, as ``top cards -o json`` does."""
        return [as_json(card) for card in self.cards]


def cards_page(world: World, view: CardsView, visibility: Visibility) -> CardsPage:
    """Return the cards page.

    Parameters
    ----------
    visibility
        Which pods may be named.

    Raises
    ------
    NotFoundError
        If the node does not exist.
    BadQueryError
        If no node has the label to group by.
    """
    if view.node and not world.has_node(view.node):
        raise NotFoundError(f"there is no node {view.node}")
    everything = usage.cards(world)
    labels = sorted({label for name in {card.node for card in everything} for label in labels_of(world, name)})
    if view.group and view.group not in labels:
        raise BadQueryError(f"group: no node with cards has the label {view.group}")
    shown = [card for card in everything if _is_meant(card, view)]
    models = sorted({card.model for card in everything})
    heat = heat_map(world, shown, view.by, view.group, named=visibility.named)
    return CardsPage(view, visibility.cards(shown), heat, labels, models)


def _is_meant(card: CardUsage, view: CardsView) -> bool:
    return view.node in {"", card.node} and names_model(view.model, card.model) and view.state in {"", card.state}
