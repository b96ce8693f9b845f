"""Searches for the amount closest to the one that does not fit, with as few decisions as do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

_FEW: Final = 16
"""Amounts in a row that are tried one by one."""
_SOME: Final = 64
"""Amounts in a row that are tried so where the least of them does not fit: some vendors cut cards in few sizes."""

PARTS: Final = 1024
"""Into so many parts amounts are divided that are made smaller together."""

NodeWith = Callable[[int], str]
"""Returns the node that a pod goes to with an amount; empty where it fits nowhere."""


def largest_that_fits(node_with: NodeWith, amounts: Sequence[int]) -> tuple[int, str] | None:
    """Return the largest of some amounts that fits, and the node that it fits on then.

    Where few are in a row, each is tried: to ask for fewer cards may be to ask more of each.

    Parameters
    ----------
    amounts
        In rising order.
    """
    for row in _evenly_spaced(amounts):
        if len(row) > _FEW and (len(row) > _SOME or node_with(row[0])):
            found = _bisect(node_with, row)
        else:
            found = next(((amount, node) for amount in reversed(row) if (node := node_with(amount))), None)
        if found:
            return found
    return None


def some_of(amounts: Sequence[int]) -> Iterator[int]:
    """Yield a few of some amounts, the smallest first: each is about twice the one before."""
    number = 1
    while number <= len(amounts):
        yield amounts[number - 1]
        number *= 2


def _bisect(node_with: NodeWith, row: Sequence[int]) -> tuple[int, str] | None:
    """Return the largest amount of a row that fits, where all below one that fits do so, too."""
    low, high = 0, len(row)
    if not node_with(row[low]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if node_with(row[middle]) else (low, middle)
    return row[low], node_with(row[low])


def _evenly_spaced(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield rows of rising values with the same distance between neighbours, the largest values first."""
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
