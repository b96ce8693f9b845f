"""What a pod costs a node when the prices of its cards are known, in cards."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.arrays import copy_rows
from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.fragmentation import CardScratch, NodeCpu, stranded_cards, take_cards, write_left
from vgpu_scheduler.kernels.prices import PERCENT, CardPrices
from vgpu_scheduler.kernels.request import PodDemand

_MIDDLE, _MOST = 50.0, 100.0
POINTS_PER_CARD = 2.0
"""So that pods with eight cards, too, score between 0 and 100."""
_STEPS = 32.0
"""Per card: costs that differ by less are equal, and the first node by name wins."""
_NUDGE = 1e-9  # so that equal costs that were added up in another order are equal steps


class Term(IntEnum):
    """What a cost is made of."""

    REST = 0
    """Worth that what is left loses beyond what the pod takes."""
    STRANDED = 1
    """Growth of what is left without cpu."""
    BESIDE = 2
    """What is left of the cards that the pod takes."""
    CONTENDED = 3
    """What pods would pay that can use few models only."""
    RESERVE = 4
    """Idle cards that pods with several cards could not use any more."""


TERMS = len(Term)


class PricedScratch(NamedTuple):
    """Work space for one node, and what the pod costs the last one, in cards, by :class:`Term`."""

    cards: CardScratch
    terms: NDArray[np.float64]  # (TERMS,)


class CardValues(NamedTuple):
    """Sums over the cards of a node."""

    worth: float
    left: float
    contended: float
    idle: int


@kernel
def _percent(free: int, total: int) -> int:
    """Return how much of an amount is free, in whole percent; all of what there is nothing of."""
    if total <= 0:
        return PERCENT
    return min(max(free * PERCENT // total, 0), PERCENT)


@kernel
def _add_up(columns: DeviceColumns, base: int, scratch: CardScratch, prices: CardPrices) -> CardValues:
    """Value the cards of a node as they are in the scratch; nobody is given a card of which nothing is left."""
    total, used = columns.total, scratch.used
    worth = together = contended = 0.0
    idle = 0
    for position in range(used.shape[0]):
        left = scratch.left[position]
        if left == 0.0:
            continue
        device = base + position
        model = columns.model[device]
        together += left
        idle += left == 1.0
        if model >= prices.dearest.shape[0]:  # a model that came after the prices
            worth += left
            continue
        memory = _percent(total[device, MEMORY] - used[position, MEMORY], total[device, MEMORY])
        cores = _percent(total[device, CORES] - used[position, CORES], total[device, CORES])
        slots = total[device, SLOTS] - used[position, SLOTS]
        sold = min(prices.worth[model, 0, memory], prices.worth[model, 1, cores])
        worth += min(sold, slots * prices.dearest[model])
        contended += left * prices.contended[model]
    return CardValues(worth, together, contended, idle)


@kernel
def _reserved(prices: CardPrices, model: int, idle: int, cpu: float) -> float:
    """Return what the idle cards of a node are worth to pods with several cards."""
    value = 0.0
    for size in range(prices.cards.shape[0]):
        if idle >= prices.cards[size] and cpu >= prices.cpu[size]:
            value += prices.reserve[model, size] * idle
    return value


@kernel
def _cost(
    cpu: NodeCpu,
    row: int,
    columns: DeviceColumns,
    demand: PodDemand,
    prices: CardPrices,
    own: CardScratch,
    terms: NDArray[np.float64],
) -> None:
    """Write what a pod costs a node that has cards, by term."""
    base = columns.first[row]
    copy_rows(columns.used[base : columns.last[row]], own.used)
    write_left(columns, base, own)
    before = _add_up(columns, base, own, prices)
    take_cards(columns, demand, base, own)
    after = _add_up(columns, base, own, prices)
    free = np.float64(cpu.offered[row]) - np.float64(cpu.used[row])
    per_card = cpu.offered[row] / (columns.last[row] - base)
    stranding, model = 1.0, columns.model[base]
    terms[Term.RESERVE] = 0.0
    if model < prices.dearest.shape[0]:
        stranding = prices.stranding[model]
        if 0.0 < prices.per_card[model] < per_card:
            per_card = prices.per_card[model]
        terms[Term.RESERVE] = _reserved(prices, model, before.idle, free) - _reserved(
            prices, model, after.idle, free - cpu.asked
        )
    beside = 0.0
    for position in range(own.taken.shape[0]):
        if own.taken[position]:
            model = columns.model[base + position]
            beside += own.left[position] * (prices.beside[model] if model < prices.dearest.shape[0] else 1.0)
    growth = stranded_cards(after.left, free - cpu.asked, per_card) - stranded_cards(before.left, free, per_card)
    terms[Term.REST] = before.worth - after.worth - (before.left - after.left)
    terms[Term.STRANDED] = stranding * growth
    terms[Term.BESIDE] = beside
    terms[Term.CONTENDED] = before.contended - after.contended


@entry_kernel
def priced_nodes(
    cpu: NodeCpu,
    columns: DeviceColumns,
    demand: PodDemand,
    prices: CardPrices,
    rows: NDArray[np.int64],
    scratch: PricedScratch,
    score: NDArray[np.float64],
) -> None:
    """Score nodes from 0 to 100 by what a pod would cost them.

    Parameters
    ----------
    cpu
        What the pod requests, and what nodes have.
    columns
        The device matrix.
    demand
        What the pod claims of devices.
    prices
        What cards are worth.
    rows
        Node rows, shape (n,).
    scratch
        Work space; its ``terms`` tell the cost of the last of the nodes.
    score
        Receives the scores, shape (n,).
    """
    card, terms = scratch.cards, scratch.terms
    for i in range(rows.shape[0]):
        row = rows[i]
        cards = columns.last[row] - columns.first[row]
        if cards == 0:
            terms[:] = 0.0
            score[i] = _MOST
            continue
        own = CardScratch(card.used[:cards], card.left[:cards], card.taken[:cards], card.passed[:cards])
        _cost(cpu, row, columns, demand, prices, own, terms)
        cost = 0.0
        for term in range(TERMS):
            cost += terms[term]
        steps = np.floor(cost * _STEPS + 0.5 + _NUDGE)
        score[i] = min(max(_MIDDLE - steps * (POINTS_PER_CARD / _STEPS), 0.0), _MOST)
