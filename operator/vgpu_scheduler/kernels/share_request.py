"""Request and work space of the fit of devices that are shared by amounts, and why a device does not fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.joint import JointTerms
from vgpu_scheduler.kernels.choose.partitions import PartitionTerms
from vgpu_scheduler.kernels.choose.scopes import ScopeTerms
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.deviceshare import ShareTerms
from vgpu_scheduler.kernels.request import BARRED_BY_POLICY, BARRED_BY_SELECTOR, PodDemand
from vgpu_scheduler.kernels.sentinels import NO_REASON


class ShareRequest(NamedTuple):
    """The claims of one pod, and which devices are tried in which order."""

    claims: PodDemand
    device_barred: NDArray[np.int8]  # (D,) 0 or ``BARRED_…``; (0,) if no device is barred
    reason: NDArray[np.int64]  # (K,) the CardReason for too little of a dimension
    idle: bool  # only unused devices
    terms: ShareTerms  # the order


class ChoiceScratch(NamedTuple):
    """Work space for claims with :class:`ChoiceTerms`, for the node with the most devices (``M``)."""

    picked: NDArray[np.int64]  # (C,) how many devices each claim has
    functions: NDArray[np.int64]  # (C, M) the virtual function taken with each pick, if any
    turn: NDArray[np.int64]  # (M,) rank of a device among those below the same switch


class ChoiceTerms(NamedTuple):
    """Rules for choosing the devices of each claim in addition to score and amounts."""

    scopes: ScopeTerms
    every: NDArray[np.bool_]  # (C,) the claim takes all devices that the pod selects
    functions: NDArray[np.int64]  # (C,) vendor of the virtual functions, one per pick, or NO_VENDOR
    partitions: PartitionTerms
    joint: JointTerms
    scratch: ChoiceScratch


class ConstrainedShareRequest(NamedTuple):
    """A request with rules in addition to the score and the amounts of devices."""

    shares: ShareRequest
    terms: ChoiceTerms


class ShareScratch(NamedTuple):
    """Work space for the node with the most devices (``M``)."""

    used: NDArray[np.int64]  # (2, M, K): [0] running containers, [1] an init container
    score: NDArray[np.int64]  # (M,)
    tried: NDArray[np.bool_]  # (M,) for the current claim
    picks: NDArray[np.int64]  # (C, M) device numbers


class ShareClaim(NamedTuple):
    """A claim that is fitted on a node."""

    claim: int
    base: int  # the number of the node's first device
    wanted: int  # how many devices
    used: NDArray[np.int64]  # (devices, K) usage of the node's devices, earlier claims included
    scratch: ShareScratch
    counts: NDArray[np.int16]  # receives the number of rejected devices, by reason


@kernel
def why_not(columns: DeviceColumns, request: ShareRequest, claim: int, device: int, used: NDArray[np.int64]) -> int:
    """Return the reason why a device does not fit, or ``NO_REASON``; ``used`` is its usage, shape (K,)."""
    if not columns.healthy[device]:
        return reasons.NOT_HEALTHY
    if columns.cordoned[device]:
        return reasons.CORDONED
    if request.device_barred.shape[0] > 0 and request.device_barred[device] != 0:
        if request.device_barred[device] == BARRED_BY_SELECTOR:
            return reasons.OTHER_LABELS
        return reasons.DENIED if request.device_barred[device] == BARRED_BY_POLICY else reasons.OTHER_MODE
    return _why_no_room(request, claim, columns.total[device], used)


@kernel
def _why_no_room(request: ShareRequest, claim: int, total: NDArray[np.int64], used: NDArray[np.int64]) -> int:
    """Return the reason for the first insufficient dimension of a device; ``total`` is its capacity, shape (K,)."""
    anything_left = False
    anything_used = False
    for dimension in range(used.shape[0]):
        free = max(total[dimension] - used[dimension], 0)
        # Dimensions that the device does not have and nobody uses are not compared.
        has = total[dimension] > 0 or used[dimension] > 0
        if has and request.claims.amounts[claim, dimension] > free:
            return request.reason[dimension]  # type: ignore[no-any-return]
        anything_left = anything_left or free > 0
        anything_used = anything_used or used[dimension] > 0
    if not anything_left:
        return reasons.EXHAUSTED
    return reasons.IN_USE if request.idle and anything_used else NO_REASON
