"""What a pod claims, for the kernels of scorers."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels import PodDemand
from vgpu_scheduler.model import PodClaims
from vgpu_scheduler.state import DeviceMatrix

# A claim beyond this fits nowhere; held below it, no sum leaves int64.
_MOST_CARDS = 1 << 16
_MOST_AMOUNT = 1 << 40


def pod_demand(claims: PodClaims, devices: DeviceMatrix) -> PodDemand:
    """Return a pod's claims as the kernels of scorers take them."""
    flat = [(number, container.kind, claim) for number, container in enumerate(claims) for claim in container.claims]
    amounts = np.zeros((len(flat), devices.dimensions), dtype=np.int64)
    percent = np.zeros((len(flat), devices.dimensions), dtype=np.int64)
    for position, (_, _, claim) in enumerate(flat):
        amounts[position, : len(claim.amounts)] = np.minimum(claim.amounts, _MOST_AMOUNT)
        percent[position, : len(claim.percent)] = claim.percent
    return PodDemand(
        container=np.array([number for number, _, _ in flat], dtype=np.int64),
        kind=np.array([int(kind) for _, kind, _ in flat], dtype=np.int64),
        vendor=np.array([devices.vendor_number(claim.vendor) for _, _, claim in flat], dtype=np.int32),
        wanted=np.array([min(claim.count, _MOST_CARDS) for _, _, claim in flat], dtype=np.int64),
        amounts=amounts,
        percent=percent,
    )
