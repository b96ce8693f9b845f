"""Search for the largest fitting amount with few decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

_SOME: Final = 64
"""The length up to which the amounts of a row are all tried: some vendors give out cards in certain numbers only."""

PARTS: Final = 1024
"""The number of steps in which amounts are reduced together."""

NodeWith = Callable[[int], str]
"""Returns the node of a pod with an amount; empty if it fits nowhere."""


def largest_that_fits(node_with: NodeWith, amounts: Sequence[int]) -> tuple[int, str] | None:
    """Return the largest amount that fits, and its node.

    In short rows all amounts are tried, since fitting need not be monotone: fewer cards may mean more of each.

    Parameters
    ----------
    amounts
        The amounts in ascending order.
    """
    for row in _evenly_spaced(amounts):
        if len(row) > _SOME:
            found = _bisect(node_with, row)
        else:
            found = next(((amount, node) for amount in reversed(row) if (node := node_with(amount))), None)
        if found:
            return found
    return None


def some_of(amounts: Sequence[int]) -> Iterator[int]:
    """Yield a sample of amounts from the smallest on, each at about twice the position of the one before."""
    number = 1
    while number <= len(amounts):
        yield amounts[number - 1]
        number *= 2


def _bisect(node_with: NodeWith, row: Sequence[int]) -> tuple[int, str] | None:
    """Return the largest fitting amount of a row, assuming that all smaller amounts fit, too."""
    low, high = 0, len(row)
    if not node_with(row[low]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if node_with(row[middle]) else (low, middle)
    return row[low], node_with(row[low])


def _evenly_spaced(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield runs of ascending values with equal distances between neighbours, the largest values first."""
    if isinstance(values, range):
        yield values
        return
    end = len(values)
    while end:
        start = max(end - 2, 0)
        while start and values[start] - values[start - 1] == values[end - 1] - values[end - 2]:
            start -= 1
        yield values[start:end]
        end = start
