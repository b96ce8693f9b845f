"""What a card is worth with some of it left, when the shares that pods ask for are known.

What is left of a card is worth what it can still be sold for: the dearest set of shares that fits into it. The prices
of shares are those at which no filled card is worth more than an empty one, and at which the pods that are asked for
are worth most. That is the dual of the cutting-stock problem (Gilmore and Gomory, 1961). Here it is approached by
multiplicative updates: the dearest filling of a card is looked for, shares of which it has more than are asked for get
cheaper and the others dearer, and the best prices of all rounds are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel

PERCENT = 100
"""Shares are in whole percent of a card, and so are the tables."""
_STEP = 0.5
"""How far prices move in the first round; later rounds move them less, by the square root of their number."""
_MOST_AT_ONCE = 1.0
"""No price moves by more than a factor of e in one round, so that none is lost for the later ones."""


class CardPrices(NamedTuple):
    """What is known of the cards of one dialect: ``M`` models by their interned numbers, ``J`` sizes of pods.

    Models of which too little was seen have the values that make the scorer know nothing: a card is worth what is left
    of it, nobody contends for it, and what stays beside a pod counts in full.
    """

    known: NDArray[np.bool_]  # (M,) whether enough was seen
    worth: NDArray[np.float64]  # (M, 2, 101) of a card with so many percent of its memory, of its cores left; 0 to 1
    dearest: NDArray[np.float64]  # (M,) what the dearest share is worth: more than that no slot can bring
    beside: NDArray[np.float64]  # (M,) weight of what is left beside the pod
    stranding: NDArray[np.float64]  # (M,) weight of what is stranded without cpu
    per_card: NDArray[np.float64]  # (M,) cpu that pods ask for per card, milli; 0 if they ask for none
    contended: NDArray[np.float64]  # (M,) what a card costs because of pods that can only use few models
    cards: NDArray[np.int64]  # (J,) how many whole cards pods of this size ask for
    cpu: NDArray[np.int64]  # (J,) and how much cpu, milli
    reserve: NDArray[np.float64]  # (M, J) what an idle card costs that they could not use any more


class PriceScratch(NamedTuple):
    """Work space for ``S`` different shares."""

    price: NDArray[np.float64]  # (S,) in the round at hand
    best: NDArray[np.float64]  # (S,) of the best round
    filling: NDArray[np.int64]  # (S,) how many of each share the dearest filling has


def price_scratch(shares: int) -> PriceScratch:
    """Return work space for so many different shares."""
    return PriceScratch(np.zeros(shares), np.zeros(shares), np.zeros(shares, dtype=np.int64))


@kernel
def _sell(shares: NDArray[np.int64], price: NDArray[np.float64], worth: NDArray[np.float64]) -> None:
    """Write what each rest of a card can be sold for: an unbounded knapsack."""
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
    """Write a filling of an empty card that is worth as much as :func:`_sell` found; smaller shares go first."""
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
            left -= 1  # no share ends here: never, as long as sums are the same twice


@entry_kernel
def price_shares(
    shares: NDArray[np.int64],
    asked: NDArray[np.float64],
    rounds: int,
    scratch: PriceScratch,
    worth: NDArray[np.float64],
) -> None:
    """Price shares of a card by how they fill it, and write what each rest of a card is worth.

    Parameters
    ----------
    shares
        Percent of a card, 1 to 100, ascending and different; shape (S,), at least one.
    asked
        How many pods ask for each, as parts of all; above 0, shape (S,).
    rounds
        How often prices are adjusted, at least once.
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
        mean = 0.0  # what a pod pays
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
