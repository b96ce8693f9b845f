"""Kernels allocate nothing. They count no references to arrays, so what one allocated would never be freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, inlined_kernel, kernel

Array = NDArray[np.int64]


@entry_kernel
def makes_an_array(values: Array) -> int:
    return int(np.zeros(values.shape[0], dtype=np.int64)[0])


@entry_kernel
def adds_arrays(values: Array) -> int:
    return int((values + values)[0])


@entry_kernel
def copies_an_array(values: Array) -> int:
    return int(values.copy()[0])


@entry_kernel
def assigns_a_part(values: Array) -> int:
    values[1:] = values[:-1]
    return int(values[0])


@entry_kernel
def sorts(values: Array) -> int:
    return int(np.argsort(values)[0])


@pytest.mark.parametrize("function", [makes_an_array, adds_arrays, copies_an_array, assigns_a_part, sorts])
def test_a_kernel_that_allocates_is_not_compiled(function: Callable[[Any], int]) -> None:
    with pytest.raises(NumbaError, match=r"NRT required|Only accept returning of array passed into the function"):
        function(np.zeros(3, dtype=np.int64))


@kernel
def adds_one(number: int) -> int:
    return number + 1


@inlined_kernel
def adds_two(number: int) -> int:
    if number < 0:
        return number
    return adds_one(adds_one(number))


@entry_kernel
def doubles_the_third(number: int) -> int:
    return 2 * adds_one(adds_two(number))


def test_a_kernel_without_a_way_in_for_python_refuses_to_be_called() -> None:
    assert (doubles_the_third(3), doubles_the_third(-3)) == (12, -4)
    for function in (adds_one, adds_two):
        with pytest.raises(TypeError, match=f"{function.__name__} is called by kernels only"):
            function(3)
