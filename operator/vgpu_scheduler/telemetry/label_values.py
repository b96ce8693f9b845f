"""Labels whose values nobody has bounded, bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["OTHER", "bounded"]

OTHER: Final = "other"
"""The value under which those are summed that have no series of their own."""


def bounded(ranks: Mapping[str, float], most: int) -> Callable[[str], str]:
    """Return a function that maps a name to a label value: its own for the first names, a common one for the rest.

    Parameters
    ----------
    ranks
        All names, with what the greatest have the most of; of equals the first by name are shown.
    most
        How many names have a value of their own.
    """
    if len(ranks) <= most:
        return lambda name: name
    own = frozenset(sorted(ranks, key=lambda name: (-ranks[name], name))[:most])
    return lambda name: name if name in own else OTHER
