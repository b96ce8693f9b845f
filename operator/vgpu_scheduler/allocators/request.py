"""Kernel arguments that all allocators share: the claims of a pod, and Koordinator's order of devices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators.choice import ShareOrder, Strategy
from vgpu_scheduler.kernels import PodDemand, ShareTerms
from vgpu_scheduler.model import WHOLE, DeviceResource, PodClaims
from vgpu_scheduler.state import DeviceMatrix


def pod_demand(claims: PodClaims, devices: DeviceMatrix) -> PodDemand:
    """Return a pod's claims, with the vendor numbers of a matrix."""
    flat = [(number, container.type, claim) for number, container in enumerate(claims) for claim in container.claims]
    amounts = np.zeros((len(flat), devices.dimensions), dtype=np.int64)
    percent = np.zeros((len(flat), devices.dimensions), dtype=np.int64)
    for position, (_, _, claim) in enumerate(flat):
        amounts[position, : len(claim.amounts)] = claim.amounts
        percent[position, : len(claim.percent)] = claim.percent
    return PodDemand(
        container=np.array([number for number, _, _ in flat], dtype=np.int64),
        kind=np.array([int(kind) for _, kind, _ in flat], dtype=np.int64),
        vendor=np.array([devices.vendor_number(claim.vendor) for _, _, claim in flat], dtype=np.int32),
        wanted=np.array([claim.count for _, _, claim in flat], dtype=np.int64),
        amounts=amounts,
        percent=percent,
    )


def amounts_of(
    amounts: int | NDArray[np.int64], percent: int | NDArray[np.int64], totals: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return what claims take of one dimension of devices: an amount, or if it is 0 a percentage of a total.

    This is ``asked_of`` of the kernels for many devices at once. The parameters are broadcast against each other.
    """
    return np.where(np.greater(amounts, 0), amounts, totals * percent // WHOLE)


def share_terms(order: ShareOrder, resources: Mapping[str, DeviceResource], devices: DeviceMatrix) -> ShareTerms:
    """Return the weighted resources that are dimensions of devices; others are skipped.

    Parameters
    ----------
    order
        Strategy and weights.
    resources
        The dialect's devices and dimensions by resource name.
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
