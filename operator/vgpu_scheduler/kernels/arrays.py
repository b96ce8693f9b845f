"""Copies without allocation: numba makes a temporary copy when an array is assigned to a slice of another."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel


@kernel
def copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy a one-dimensional array to the beginning of another."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel
def copy_rows(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy the rows of a table to the beginning of another with as many columns."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@kernel
def count_of(values: NDArray[Any], number: int) -> int:
    """Return how often a number occurs in an array."""
    found = 0
    for i in range(values.shape[0]):
        found += int(values[i] == number)
    return found
