"""Cards of one scope of a node's topology tree, in plain Python: every scope is written down and looked at.

A scope is a path: () is the machine, (0,) a NUMA node of it, (0, "a") a switch of that. Slow and obvious.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

LEVELS = {"Node": 1, "NUMANode": 2, "PCIe": 3}
"""Koordinator's words for how deep a scope is."""


class Leaf(NamedTuple):
    """A card: where it is, whether it could serve, whether somebody uses it, and how good it is."""

    place: tuple[Any, Any]
    index: int
    fits: bool
    used: bool
    score: int


def choose(cards: Sequence[Leaf], count: int, *, whole: bool, level: int) -> list[int] | None:
    """Positions of the cards of the best scope that is deep enough, in the order in which they are taken."""
    best: tuple[tuple[int, int, int], list[int]] | None = None
    paths = {card.place[:depth] for card in cards for depth in range(3)}
    for path in sorted(paths):
        inside = [i for i, card in enumerate(cards) if card.place[: len(path)] == path and card.fits]
        if len(path) + 1 < level or len(inside) < count:
            continue
        inside.sort(key=lambda i: (0 if whole else -cards[i].score, cards[i].index, i))
        in_use = sum(
            any(card.used for card in cards if card.place[:depth] == path[:depth]) for depth in range(len(path) + 1)
        )
        rank = (len(path), in_use, 0 if whole else cards[inside[0]].score)
        if best is None or rank > best[0]:
            best = (rank, inside[:count])
    return None if best is None else best[1]
