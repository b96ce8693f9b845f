"""Koordinator's device score as the kernels take it: strategy, weights, and the amounts that the names stand for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vgpu_scheduler.allocators.choice import ShareOrder, Strategy
from vgpu_scheduler.kernels import ShareTerms
from vgpu_scheduler.model import DeviceResource
from vgpu_scheduler.state import DeviceMatrix


def share_terms(order: ShareOrder, resources: Mapping[str, DeviceResource], devices: DeviceMatrix) -> ShareTerms:
    """Return the weighed resources that stand for amounts of devices; the others are skipped.

    Parameters
    ----------
    order
        Strategy and weights.
    resources
        What resource names stand for, as the dialect says.
    devices
        The matrix whose vendor numbers are used.
    """
    known = [(weight, resources[name]) for name, weight in order.weights if name in resources]
    return ShareTerms(
        most=order.strategy is Strategy.MOST_ALLOCATED,
        weight=np.array([weight for weight, _ in known], dtype=np.int64),
        vendor=np.array([devices.vendor_number(resource.vendor) for _, resource in known], dtype=np.int32),
        dimension=np.array([resource.dimension for _, resource in known], dtype=np.int64),
        percent=np.array([resource.percent for _, resource in known], dtype=np.bool_),
    )
