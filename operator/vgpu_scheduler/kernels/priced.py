"""The cost of placing a pod on a node by card prices, in cards."""

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
"""Small enough that pods with eight cards also score between 0 and 100."""
_STEPS = 32.0
"""Steps per card: costs that differ by less than a step are tied, and the first node by name wins."""
_NUDGE = 1e-9  # absorbs rounding, so that equal costs summed in another order give equal steps


class Term(IntEnum):
    """The terms of a cost."""

    REST = 0
    """Worth that the free parts lose beyond the part that the pod takes."""
    STRANDED = 1
    """Growth of free cards that lack cpu."""
    BESIDE = 2
    """The free parts of the cards that the pod takes."""
    CONTENDED = 3
    """The price that pods with few usable models would pay."""
    RESERVE = 4
    """Idle cards that multi-card pods could no longer use."""


TERMS = len(Term)


class PricedScratch(NamedTuple):
    """Work space for one node, and the cost on the last node, in cards, by :class:`Term`."""

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
    """Return the free part of an amount in whole percent; 100 if the total is 0."""
    if total <= 0:
        return PERCENT
    return min(max(free * PERCENT // total, 0), PERCENT)


@kernel
def _add_up(columns: DeviceColumns, base: int, scratch: CardScratch, prices: CardPrices) -> CardValues:
    """Sum up the values of a node's cards as they are in the scratch; full and unusable cards count nothing."""
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
        if model >= prices.dearest.shape[0]:  # a model that is newer than the prices
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
    """Return the worth of a node's idle cards for multi-card pods."""
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
    """Write the cost of a pod on a node with cards, by term."""
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
    """Score nodes from 0 to 100 by the cost of placing a pod.

    Parameters
    ----------
    cpu
        The cpu request of the pod, and the cpu of the nodes.
    columns
        The device matrix.
    demand
        The device claims of the pod.
    prices
        The card prices.
    rows
        Node rows, shape (n,).
    scratch
        Work space; its ``terms`` hold the cost on the last node.
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
