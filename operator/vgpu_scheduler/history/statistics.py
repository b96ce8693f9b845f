"""What values come to: those that a part of them does not exceed, and sums over time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["integrals", "quantiles"]

_Values = NDArray[np.float64]


def quantiles(values: _Values, parts: Iterable[float], counts: _Values | None = None) -> list[float]:
    """Return for each part the smallest value that so large a part of all does not exceed; 0 where there are none.

    Parameters
    ----------
    values
        In rising order.
    counts
        How often each counts; once each if it is not given.
    """
    reached = np.cumsum(np.ones(values.size) if counts is None else counts)
    if not values.size or not reached[-1]:
        return [0.0 for _ in parts]
    numbers = (int(np.searchsorted(reached, part * reached[-1])) for part in parts)
    return [float(values[min(number, values.size - 1)]) for number in numbers]


def integrals(times: _Values, values: _Values, edges: _Values) -> _Values:
    """Return the sums over time between edges, of what has each value from its time to the next, and then the last."""
    if not times.size:
        return np.zeros(edges.size - 1)
    ends = np.append(times, max(float(edges[-1]), float(times[-1])))
    whole = np.concatenate(([0.0], np.cumsum(values * np.diff(ends))))
    return np.diff(np.interp(edges, ends, whole))
