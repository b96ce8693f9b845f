"""The heat map: cards as tiles, by node and by a label of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.moves.moves import NodeCard
from vgpu_scheduler.whatif.world import usage
from vgpu_scheduler.whatif.world.usage_rows import CardUsage, NodeUsage, UsedAmount

MEASURES: Final = ("memory", "cores", "pods")
MOST_TILES: Final = 4096
"""The number of cards above which each tile shows a node."""
_LEVELS: Final = 10
_NO_LABEL: Final = "(no such label)"


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile for a card, or for all cards of a node if there are too many.

    Attributes
    ----------
    level
        The fill level, from 0 to 10.
    told
        The tile's meaning in words, for visitors who do not see colours.
    marked
        Whether to highlight the tile.
    """

    node: str
    card: str
    level: int
    state: str
    told: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The tiles of a node."""

    node: str
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes with the same value of a label; all nodes, without a name, if they are not grouped."""

    name: str
    rows: Sequence[Row]
    total: NodeUsage


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The tiles of cards, in groups.

    Attributes
    ----------
    by_node
        Whether each tile shows a node.
    """

    groups: Sequence[Group]
    by_node: bool


def heat_map(
    world: World,
    cards: Sequence[CardUsage],
    by: str,
    label: str = "",
    marked: Collection[NodeCard] = (),
    most: int = MOST_TILES,
    named: Callable[[str], str] = str,
) -> HeatMap:
    """Return the heat map of cards.

    Parameters
    ----------
    by
        The measure that colours the tiles, one of ``MEASURES``.
    label
        The node label to group by; empty for no groups.
    marked
        The cards to highlight.
    most
        The number of cards above which each tile shows a node.
    named
        Returns the name to show for a pod.
    """
    by_node = len(cards) > most
    found: dict[str, dict[str, list[CardUsage]]] = {}
    for card in cards:
        name = labels_of(world, card.node).get(label, _NO_LABEL) if label else ""
        found.setdefault(name, {}).setdefault(card.node, []).append(card)
    groups = []
    for name, nodes in sorted(found.items()):
        if by_node:
            rows = [Row("", [_tile_of_node(node, theirs, by, marked) for node, theirs in nodes.items()])]
        else:
            rows = [Row(node, [_tile(card, by, marked, named) for card in theirs]) for node, theirs in nodes.items()]
        groups.append(Group(name, rows, usage.summed(name, [card for theirs in nodes.values() for card in theirs])))
    return HeatMap(groups, by_node)


def labels_of(world: World, node: str) -> dict[str, str]:
    """Return the labels of a node."""
    known = world.engine.state.node(node)
    return dict(known.labels) if known is not None else {}


def _tile(card: CardUsage, by: str, marked: Collection[NodeCard], named: Callable[[str], str]) -> Tile:
    pods = f"{len(card.pods)} pods" if len(card.pods) != 1 else f"pod {named(card.pods[0])}"
    amounts = f"memory {card.memory}Mi ({card.memory.percent}%), compute {card.cores.used}%"
    told = f"{card.node}/{card.card}, {card.model}: {amounts}, {pods}, {card.state}"
    level = _level(card.memory, card.cores, len(card.pods), by)
    return Tile(card.node, card.card, level, card.state, told, (card.node, card.card) in marked)


def _tile_of_node(node: str, cards: Sequence[CardUsage], by: str, marked: Collection[NodeCard]) -> Tile:
    total = usage.summed(node, cards)
    states = [card.state for card in cards if card.state != "ready"]
    told = f"{node}: {total.cards} cards, {total.idle} idle, memory {total.memory.percent}%, {total.pods} pods"
    told += f", {len(states)} not in service" if states else ""
    level, is_marked = _level(total.memory, total.cores, total.pods, by), _any_of(cards, marked)
    return Tile(node, "", level, max(states, default="ready"), told, is_marked)


def _any_of(cards: Iterable[CardUsage], marked: Collection[NodeCard]) -> bool:
    return any((card.node, card.card) in marked for card in cards)


def _level(memory: UsedAmount, cores: UsedAmount, pods: int, by: str) -> int:
    if by == "pods":
        return min(pods, _LEVELS)
    held = memory if by == "memory" else cores
    return min(-(-held.used * _LEVELS // held.total), _LEVELS) if held.total else 0
