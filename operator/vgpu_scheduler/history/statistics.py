"""Weighted quantiles, and integrals of step functions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_Values = NDArray[np.float64]


def quantiles(values: _Values, parts: Iterable[float], counts: _Values | None = None) -> list[float]:
    """Return, for each fraction, the smallest value that at least this fraction does not exceed; 0 without values.

    Parameters
    ----------
    values
        In ascending order.
    counts
        The weight of each value; 1 by default.
    """
    reached = np.cumsum(np.ones(values.size) if counts is None else counts)
    if not values.size or not reached[-1]:
        return [0.0 for _ in parts]
    numbers = (int(np.searchsorted(reached, part * reached[-1])) for part in parts)
    return [float(values[min(number, values.size - 1)]) for number in numbers]


def integrals(times: _Values, values: _Values, edges: _Values) -> _Values:
    """Return the integrals between edges of a step function with these values; the last value continues."""
    if not times.size:
        return np.zeros(edges.size - 1)
    ends = np.append(times, max(float(edges[-1]), float(times[-1])))
    whole = np.concatenate(([0.0], np.cumsum(values * np.diff(ends))))
    return np.diff(np.interp(edges, ends, whole))
