"""Kernels allocate nothing. They count no references to arrays, so what one allocated would never be freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel

Array = NDArray[np.int64]


@kernel
def makes_an_array(values: Array) -> int:
    return int(np.zeros(values.shape[0], dtype=np.int64)[0])


@kernel
def adds_arrays(values: Array) -> int:
    return int((values + values)[0])


@kernel
def copies_an_array(values: Array) -> int:
    return int(values.copy()[0])


@kernel
def assigns_a_part(values: Array) -> int:
    values[1:] = values[:-1]
    return int(values[0])


@kernel
def sorts(values: Array) -> int:
    return int(np.argsort(values)[0])


@pytest.mark.parametrize("function", [makes_an_array, adds_arrays, copies_an_array, assigns_a_part, sorts])
def test_a_kernel_that_allocates_is_not_compiled(function: Callable[[Any], int]) -> None:
    with pytest.raises(NumbaError, match=r"NRT required|Only accept returning of array passed into the function"):
        function(np.zeros(3, dtype=np.int64))
