"""Copies that allocate nothing: numba makes a temporary copy where one array is assigned to a part of another."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel


@kernel
def copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Write the numbers of an array to the beginning of another, both of one dimension."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel
def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Write the rows of a table to the beginning of another; their columns are as many."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@kernel
def count_of(values: NDArray[Any], number: int) -> int:
    """Return how often an array has a number."""
    found = 0
    for i in range(values.shape[0]):
        found += int(values[i] == number)
    return found
