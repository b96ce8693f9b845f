"""What a pod costs a node by the prices of its cards, and how shares of cards are priced, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tests.naive.fragmentation import left, take
from tests.naive.hami_values import Card, Container

ZERO = Fraction(0)
Model = tuple[str, str, str]


@dataclass(frozen=True)
class ModelPrices:
    """What is known of the cards of a model; without these a card is worth what is left of it.

    Attributes
    ----------
    memory, cores
        What a card is worth by whole percent left, 0 to 100.
    reserve
        By the cards and the cpu that pods ask for.
    """

    memory: Sequence[Fraction]
    cores: Sequence[Fraction]
    dearest: Fraction
    beside: Fraction
    stranding: Fraction
    per_card: Fraction
    contended: Fraction
    reserve: Mapping[tuple[int, int], Fraction]


LINEAR = [Fraction(percent, 100) for percent in range(101)]
NOTHING_KNOWN = ModelPrices(LINEAR, LINEAR, Fraction(1), Fraction(1), Fraction(1), ZERO, ZERO, {})


def points(
    cards: Sequence[Card],
    cpu: int,
    cpu_used: int,
    cpu_asked: int,
    containers: Sequence[Container],
    prices: Mapping[Model, ModelPrices],
) -> Fraction:
    """50 - 2 x cost in steps of 1/32 card, from 0 to 100; 100 where nothing can be stranded."""
    if not cards:
        return Fraction(100)
    with_pod = [copy(card) for card in cards]
    taken: set[str] = set()
    for container in containers:
        if container.kind != "init":
            for ask in container.asks:
                taken |= take(with_pod, ask)
    free, first = cpu - cpu_used, prices.get(model(cards[0]), NOTHING_KNOWN)
    cost = worth(cards, prices) - worth(with_pod, prices)
    cost -= sum(map(left, cards), ZERO) - sum(map(left, with_pod), ZERO)
    cost += first.stranding * (stranded(with_pod, cpu, free - cpu_asked, first) - stranded(cards, cpu, free, first))
    for before, after in zip(cards, with_pod, strict=True):
        known = prices.get(model(before), NOTHING_KNOWN)
        cost += known.contended * (left(before) - left(after))
        cost += known.beside * left(after) if after.uuid in taken else 0
    cost += reserved(cards, free, first) - reserved(with_pod, free - cpu_asked, first)
    return min(max(50 - Fraction(math.floor(32 * cost + Fraction(1, 2)), 16), ZERO), Fraction(100))


def model(card: Card) -> Model:
    return card.vendor, card.type, card.mode


def worth(cards: Sequence[Card], prices: Mapping[Model, ModelPrices]) -> Fraction:
    total = ZERO
    for card in cards:
        if left(card) == 0:
            continue
        if model(card) not in prices:
            total += left(card)
            continue
        known = prices[model(card)]
        sold = min(
            known.memory[percent(card.memory - card.used_memory, card.memory)],
            known.cores[percent(card.cores - card.used_cores, card.cores)],
        )
        total += min(sold, (card.count - card.used) * known.dearest)
    return total


def percent(free: int, total: int) -> int:
    return min(max(100 * free // total, 0), 100) if total else 100


def stranded(cards: Sequence[Card], cpu: int, free: int, known: ModelPrices) -> Fraction:
    per_card = Fraction(cpu, len(cards))
    if known.per_card:
        per_card = min(per_card, known.per_card)
    served = max(free, 0) / per_card if per_card else ZERO
    return max(sum(map(left, cards), ZERO) - served, ZERO)


def reserved(cards: Sequence[Card], free: int, known: ModelPrices) -> Fraction:
    idle = sum(left(card) == 1 for card in cards)
    useful = [price for (wanted, cpu), price in known.reserve.items() if idle >= wanted and free >= cpu]
    return idle * sum(useful, ZERO)


# Shares ------------------------------------------------------------------------------------------------------------


def price_shares(asked: Mapping[int, float], rounds: int) -> tuple[dict[int, float], list[float]]:
    """The prices of shares, by percent of a card, and what each rest of a card can be sold for.

    In each round the dearest filling of a card is found; shares of which it has more than are asked for get cheaper,
    the others dearer. The prices of the round count in which a pod pays most, if a full card is worth 1.
    """
    price = {share: share / 100 for share in sorted(asked)}
    best: dict[int, float] = {}
    most = -1.0
    for turn in range(rounds):
        sold = dearest_filling(price)
        whole, filling = sold(100)
        price = {share: each / whole for share, each in price.items()}
        mean = sum(asked[share] * each for share, each in price.items())
        if mean > most:
            most, best = mean, dict(price)
        for share in price:
            surplus = asked[share] / mean - filling.count(share)
            price[share] *= math.exp(min(max(0.5 / math.sqrt(1 + turn) * surplus, -1.0), 1.0))
    sold = dearest_filling(best)
    return best, [sold(percent)[0] / sold(100)[0] for percent in range(101)]


def dearest_filling(price: Mapping[int, float]) -> Callable[[int], tuple[float, tuple[int, ...]]]:
    @cache
    def sold(room: int) -> tuple[float, tuple[int, ...]]:
        if room == 0:
            return 0.0, ()
        best = sold(room - 1)
        for share in sorted(price):
            if share <= room and sold(room - share)[0] + price[share] > best[0]:
                value, shares = sold(room - share)
                best = value + price[share], (*shares, share)
        return best

    return sold
