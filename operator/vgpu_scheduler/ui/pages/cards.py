"""All cards as a heat map, by node and by what groups nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.whatif import World, usage

MEASURES: Final = ("memory", "cores", "pods")
STATES: Final = ("ready", "unhealthy", "cordoned")
PARAMETERS: Final = ("by", "group", "node", "model", "state")
MOST_TILES: Final = 4096
"""Cards above which there is one tile for each node."""
_LEVELS: Final = 10
_NO_LABEL: Final = "(no such label)"


@dataclass(frozen=True, slots=True)
class CardsView:
    """Which cards are shown, and how; empty texts are for all.

    Attributes
    ----------
    by
        What colours a tile: one of ``MEASURES``.
    group
        The label of nodes by which these are grouped.
    model
        A part of the model's name.
    """

    by: str = "memory"
    group: str = ""
    node: str = ""
    model: str = ""
    state: str = ""

    @classmethod
    def of(cls, query: Query) -> CardsView:
        """Read it from an address.

        Raises
        ------
        BadQueryError
            If a value is none that there is.
        """
        state = query.get("state") and query.choice("state", STATES)
        return cls(query.choice("by", MEASURES), query.get("group"), query.get("node"), query.get("model"), state)


@dataclass(frozen=True, slots=True)
class Tile:
    """A card, or the cards of a node where there are too many.

    Attributes
    ----------
    level
        How full it is, from 0 to 10.
    told
        What it is, for those who do not see colours.
    """

    node: str
    card: str
    level: int
    state: str
    told: str


@dataclass(frozen=True, slots=True)
class Row:
    """The tiles of a node."""

    node: str
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with the same value of a label; of all nodes where they are not grouped, without a name."""

    name: str
    rows: Sequence[Row]
    total: usage.NodeUsage


@dataclass(frozen=True, slots=True)
class CardsPage:
    """Cards.

    Attributes
    ----------
    labels
        The labels by which nodes may be grouped.
    by_node
        Whether there is one tile for each node.
    """

    view: CardsView
    cards: Sequence[usage.CardUsage]
    groups: Sequence[Group]
    labels: Sequence[str]
    models: Sequence[str]
    by_node: bool

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values, as ``top cards -o json`` does."""
        return [usage.as_json(card) for card in self.cards]


def cards_page(world: World, view: CardsView) -> CardsPage:
    """Return the cards that are asked for.

    Raises
    ------
    NotFoundError
        If there is no such node.
    BadQueryError
        If no node has the label by which they are to be grouped.
    """
    if view.node and not world.has_node(view.node):
        raise NotFoundError(f"there is no node {view.node}")
    everything = usage.cards(world)
    labels = sorted({label for name in {card.node for card in everything} for label in _labels(world, name)})
    if view.group and view.group not in labels:
        raise BadQueryError(f"group: no node with cards has the label {view.group}")
    shown = [card for card in everything if _is_meant(card, view)]
    by_node = len(shown) > MOST_TILES
    models = sorted({card.model for card in everything})
    return CardsPage(view, shown, _groups(world, shown, view, by_node=by_node), labels, models, by_node)


def _is_meant(card: usage.CardUsage, view: CardsView) -> bool:
    return view.node in {"", card.node} and view.model.lower() in card.model.lower() and view.state in {"", card.state}


def _labels(world: World, node: str) -> dict[str, str]:
    known = world.engine.state.node(node)
    return dict(known.labels) if known is not None else {}


def _groups(world: World, cards: Iterable[usage.CardUsage], view: CardsView, *, by_node: bool) -> list[Group]:
    by_name: dict[str, dict[str, list[usage.CardUsage]]] = {}
    for card in cards:
        name = _labels(world, card.node).get(view.group, _NO_LABEL) if view.group else ""
        by_name.setdefault(name, {}).setdefault(card.node, []).append(card)
    groups = []
    for name, nodes in sorted(by_name.items()):
        if by_node:
            rows = [Row("", [_tile_of_node(node, theirs, view.by) for node, theirs in nodes.items()])]
        else:
            rows = [Row(node, [_tile(card, view.by) for card in theirs]) for node, theirs in nodes.items()]
        total = usage.summed(name, [card for theirs in nodes.values() for card in theirs])
        groups.append(Group(name, rows, total))
    return groups


def _tile(card: usage.CardUsage, by: str) -> Tile:
    pods = f"{len(card.pods)} pods" if len(card.pods) != 1 else f"pod {card.pods[0]}"
    amounts = f"memory {card.memory}Mi ({card.memory.percent}%), compute {card.cores.used}%"
    told = f"{card.node}/{card.card}, {card.model}: {amounts}, {pods}, {card.state}"
    return Tile(card.node, card.card, _level(card.memory, card.cores, len(card.pods), by), card.state, told)


def _tile_of_node(node: str, cards: Sequence[usage.CardUsage], by: str) -> Tile:
    total = usage.summed(node, cards)
    states = [card.state for card in cards if card.state != "ready"]
    told = f"{node}: {total.cards} cards, {total.idle} idle, memory {total.memory.percent}%, {total.pods} pods"
    told += f", {len(states)} not in service" if states else ""
    return Tile(node, "", _level(total.memory, total.cores, total.pods, by), max(states, default="ready"), told)


def _level(memory: usage.Held, cores: usage.Held, pods: int, by: str) -> int:
    if by == "pods":
        return min(pods, _LEVELS)
    held = memory if by == "memory" else cores
    return min(-(-held.used * _LEVELS // held.total), _LEVELS) if held.total else 0
