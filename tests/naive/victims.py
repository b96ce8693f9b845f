"""Which pods on a card cost least that would have to end, by amounts alone, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

Amounts = tuple[int, ...]
Cost = tuple[int, int, int, float]
"""The highest priority, the sum of the priorities above the lowest that there is, how many pods, and minus the start of
the oldest pod of the highest priority."""


@dataclass(frozen=True)
class Occupant:
    """What a pod holds of a card."""

    priority: int
    start: float
    amounts: Amounts
    costs_nothing: bool = False


@dataclass(frozen=True)
class Card:
    """A card with its pods, the most important first, those that cost nothing before them.

    What else is used has no pod that may end.
    """

    total: Amounts
    used: Amounts
    occupants: tuple[Occupant, ...]
    may_use: bool = True


def cheapest_set(card: Card, needed: Amounts, percent: Amounts, priority: int) -> Cost | None:
    """Return what the cheapest set of pods of a lower priority costs without which so much is free; None for none."""
    lower = [occupant for occupant in card.occupants if occupant.priority < priority]
    if not card.may_use:
        return None
    free = [occupant for occupant in lower if occupant.costs_nothing]
    paid = [occupant for occupant in lower if not occupant.costs_nothing]
    sets = chain.from_iterable(combinations(paid, size) for size in range(0 if free else 1, len(paid) + 1))
    return min((cost_of(gone) for gone in sets if is_enough(card, [*gone, *free], needed, percent)), default=None)


def is_enough(card: Card, gone: Sequence[Occupant], needed: Amounts, percent: Amounts) -> bool:
    """Tell whether a card has so much free once some pods are gone."""
    for dimension, total in enumerate(card.total):
        asked = needed[dimension] or total * percent[dimension] // 100
        free = total - card.used[dimension] + sum(occupant.amounts[dimension] for occupant in gone)
        if asked and free < asked:
            return False
    return True


def cost_of(gone: Sequence[Occupant]) -> Cost:
    """Return what it costs that some pods end; nobody's end costs less than anything."""
    if not gone:
        return -(2**31), 0, 0, -math.inf
    highest = max(occupant.priority for occupant in gone)
    total = sum(occupant.priority + 2**31 for occupant in gone)
    return highest, total, len(gone), -min(occupant.start for occupant in gone if occupant.priority == highest)
