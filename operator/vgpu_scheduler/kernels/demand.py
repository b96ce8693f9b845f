"""The device claims of one pod, as the kernels of scorers take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class PodDemand(NamedTuple):
    """``C`` claims in container order, ``K`` dimensions."""

    container: NDArray[np.int64]  # (C,) number of the container, ascending
    kind: NDArray[np.int64]  # (C,) ContainerKind of that container
    vendor: NDArray[np.int32]  # (C,)
    wanted: NDArray[np.int64]  # (C,) number of devices
    amounts: NDArray[np.int64]  # (C, K) per device; 0 where percent may say it
    percent: NDArray[np.int64]  # (C, K)
