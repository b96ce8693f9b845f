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
class Tenant:
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
    tenants: tuple[Tenant, ...]
    may_use: bool = True


def cheapest_set(card: Card, needed: Amounts, percent: Amounts, priority: int) -> Cost | None:
    """Return what the cheapest set of pods of a lower priority costs without which so much is free; None for none."""
    lower = [tenant for tenant in card.tenants if tenant.priority < priority]
    if not card.may_use:
        return None
    free = [tenant for tenant in lower if tenant.costs_nothing]
    paid = [tenant for tenant in lower if not tenant.costs_nothing]
    sets = chain.from_iterable(combinations(paid, size) for size in range(0 if free else 1, len(paid) + 1))
    return min((cost_of(gone) for gone in sets if is_enough(card, [*gone, *free], needed, percent)), default=None)


def is_enough(card: Card, gone: Sequence[Tenant], needed: Amounts, percent: Amounts) -> bool:
    """Tell whether a card has so much free once some pods are gone."""
    for dimension, total in enumerate(card.total):
        asked = needed[dimension] or total * percent[dimension] // 100
        free = total - card.used[dimension] + sum(tenant.amounts[dimension] for tenant in gone)
        if asked and free < asked:
            return False
    return True


def cost_of(gone: Sequence[Tenant]) -> Cost:
    """Return what it costs that some pods end; nobody's end costs less than anything."""
    if not gone:
        return -(2**31), 0, 0, -math.inf
    highest = max(tenant.priority for tenant in gone)
    total = sum(tenant.priority + 2**31 for tenant in gone)
    return highest, total, len(gone), -min(tenant.start for tenant in gone if tenant.priority == highest)
