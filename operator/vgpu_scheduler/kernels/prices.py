"""Prices: the worth of a partly used card, given the shares that pods request.

The free part of a card is worth the most expensive set of shares that fits into it. The prices of shares maximise the
total price of the requested pods, subject to no filling of a card being worth more than an empty card: the dual of the
cutting-stock problem (Gilmore and Gomory, 1961). It is solved approximately by multiplicative updates: each round finds
the most expensive filling of a card, lowers the prices of shares of which the filling has more than is requested, and
raises the others. The best prices of all rounds are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel

PERCENT = 100
"""Shares and tables are in whole percent of a card."""
_STEP = 0.5
"""Step size of the first round; later steps shrink with the square root of the round's number."""
_MOST_AT_ONCE = 1.0
"""Limit of the exponent of one update: no price changes by more than a factor of e in one round."""


class CardPrices(NamedTuple):
    """Learned prices of the cards of one dialect: ``M`` models by their interned numbers, ``J`` pod sizes.

    Models with too few observations have neutral values: a card is worth its free part, no pod contends for it, and
    the part left beside a pod has full weight.
    """

    known: NDArray[np.bool_]  # (M,) whether enough was seen
    worth: NDArray[np.float64]  # (M, 2, 101) worth by percent of memory, of cores left; 0 to 1
    dearest: NDArray[np.float64]  # (M,) price of the most expensive share, the upper bound per slot
    beside: NDArray[np.float64]  # (M,) weight of the part left beside the pod
    stranding: NDArray[np.float64]  # (M,) weight of cards stranded without cpu
    per_card: NDArray[np.float64]  # (M,) cpu that pods request per card, milli; 0 for none
    contended: NDArray[np.float64]  # (M,) extra cost of a card that pods with few usable models need
    cards: NDArray[np.int64]  # (J,) whole cards that pods of this size request
    cpu: NDArray[np.int64]  # (J,) cpu that they request, milli
    reserve: NDArray[np.float64]  # (M, J) cost of an idle card that these pods could no longer use


class PriceScratch(NamedTuple):
    """Work space for ``S`` different shares."""

    price: NDArray[np.float64]  # (S,) in the current round
    best: NDArray[np.float64]  # (S,) of the best round
    filling: NDArray[np.int64]  # (S,) number of each share in the most expensive filling


def price_scratch(shares: int) -> PriceScratch:
    """Return work space for a number of distinct shares."""
    return PriceScratch(np.zeros(shares), np.zeros(shares), np.zeros(shares, dtype=np.int64))


@kernel
def _sell(shares: NDArray[np.int64], price: NDArray[np.float64], worth: NDArray[np.float64]) -> None:
    """Write the worth of each free percentage of a card: an unbounded knapsack."""
    worth[0] = 0.0
    for left in range(1, PERCENT + 1):
        most = worth[left - 1]
        for number in range(shares.shape[0]):
            share = shares[number]
            if share > left:
                break
            sold = worth[left - share] + price[number]
            most = max(most, sold)
        worth[left] = most


@kernel
def _fill(
    shares: NDArray[np.int64], price: NDArray[np.float64], worth: NDArray[np.float64], filling: NDArray[np.int64]
) -> None:
    """Write a filling of an empty card with the worth that :func:`_sell` found; smaller shares go first."""
    filling[:] = 0
    left = PERCENT
    while left > 0:
        if worth[left] == worth[left - 1]:
            left -= 1
            continue
        for number in range(shares.shape[0]):
            share = shares[number]
            if share <= left and worth[left - share] + price[number] == worth[left]:
                filling[number] += 1
                left -= share
                break
        else:
            left -= 1  # no share matches: unreachable, because the sums are computed as in _sell


@entry_kernel
def price_shares(
    shares: NDArray[np.int64],
    asked: NDArray[np.float64],
    rounds: int,
    scratch: PriceScratch,
    worth: NDArray[np.float64],
) -> None:
    """Compute prices of shares, and write the worth of each free percentage of a card.

    Parameters
    ----------
    shares
        Percent of a card, 1 to 100, strictly ascending; shape (S,), at least one.
    asked
        The fraction of pods that request each share; above 0, shape (S,).
    rounds
        The number of price updates, at least 1.
    scratch
        Work space; ``scratch.best`` receives the prices.
    worth
        Receives the worth by whole percent left, 0 to 1; shape (101,).
    """
    price, best, filling = scratch.price, scratch.best, scratch.filling
    for number in range(shares.shape[0]):
        price[number] = shares[number] / PERCENT
    most = -1.0
    for turn in range(rounds):
        _sell(shares, price, worth)
        _fill(shares, price, worth, filling)
        whole = worth[PERCENT]
        mean = 0.0  # mean price of a pod
        for number in range(shares.shape[0]):
            price[number] /= whole
            mean += asked[number] * price[number]
        if mean > most:
            most = mean
            for number in range(shares.shape[0]):
                best[number] = price[number]
        step = _STEP / np.sqrt(1.0 + turn)
        for number in range(shares.shape[0]):
            surplus = asked[number] / mean - filling[number]
            price[number] *= np.exp(min(max(step * surplus, -_MOST_AT_ONCE), _MOST_AT_ONCE))
    _sell(shares, best, worth)
    whole = worth[PERCENT]
    for left in range(PERCENT + 1):
        worth[left] /= whole
