"""What a pod costs a node in stranded cards, in plain Python and exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from fractions import Fraction

from tests.naive.hami_values import Ask, Card, Container


def points(cards: Sequence[Card], cpu: int, cpu_used: int, cpu_asked: int, containers: Sequence[Container]) -> int:
    """50 - 5 x cost, rounded to whole points from 0 to 100; 100 where nothing can be stranded."""
    if not cards:
        return 100
    with_pod = [copy(card) for card in cards]
    taken: set[str] = set()
    for container in containers:
        if container.kind != "init":
            for ask in container.asks:
                taken |= take(with_pod, ask)
    beside = sum((left(card) for card in with_pod if card.uuid in taken), Fraction(0))
    growth = stranded(with_pod, cpu, cpu_used + cpu_asked) - stranded(cards, cpu, cpu_used)
    return min(max(math.floor(Fraction(101, 2) - 5 * (growth + beside)), 0), 100)


def stranded(cards: Sequence[Card], cpu: int, cpu_used: int) -> Fraction:
    """The cards that are left without the cpu to use them with."""
    served = Fraction(max(cpu - cpu_used, 0) * len(cards), cpu) if cpu else Fraction(0)
    return max(sum(map(left, cards), Fraction(0)) - served, Fraction(0))


def left(card: Card) -> Fraction:
    if not card.healthy or card.cordoned or card.used >= card.count:
        return Fraction(0)
    shares = [Fraction(1)]
    if card.memory:
        shares.append(Fraction(card.memory - card.used_memory, card.memory))
    if card.cores:
        shares.append(Fraction(card.cores - card.used_cores, card.cores))
    return max(min(shares), Fraction(0))


def take(cards: Sequence[Card], ask: Ask) -> set[str]:
    """Book an ask on the cards that it fits best, the later of equals first; the UUIDs of these."""

    def after(position: int) -> tuple[int, int, int]:
        card = cards[position]
        memory = card.memory - card.used_memory - ask.memory_on(card)
        return memory, card.cores - card.used_cores - min(ask.cores, 100), -position

    def holds(position: int) -> bool:
        card = cards[position]
        alone = ask.cores < 100 or card.used == 0
        return card.vendor == ask.vendor and left(card) > 0 and min(after(position)[:2]) >= 0 and alone

    # One after the other, though what is taken of one card changes nothing about the others.
    chosen = sorted(filter(holds, range(len(cards))), key=after)[: ask.nums]
    for position in chosen:
        card = cards[position]
        card.used += 1
        card.used_memory += ask.memory_on(card)
        card.used_cores += min(ask.cores, 100)
    return {cards[position].uuid for position in chosen}
