"""What the fit of devices that are shared by amounts is asked, its work space, and why a device does not fit."""

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
    """What a fit is asked: the claims of one pod, and which devices are tried in which order."""

    claims: PodDemand
    device_barred: NDArray[np.int8]  # (D,) 0, or by policy, mode or selector (``BARRED_…``); (0,) when none is
    reason: NDArray[np.int64]  # (K,) the CardReason of a device that has too little of a dimension
    idle: bool  # only devices that nobody uses
    terms: ShareTerms  # the order


class ChoiceScratch(NamedTuple):
    """Work space of what is chosen by more than score and amounts, for the node with the most devices (``M``)."""

    picked: NDArray[np.int64]  # (C,) how many devices each claim has
    functions: NDArray[np.int64]  # (C, M) what is taken with each pick, where something is
    turn: NDArray[np.int64]  # (M,) when a device comes that follows others below their switches


class ChoiceTerms(NamedTuple):
    """How the devices of each claim are chosen, where score and amounts are not all."""

    scopes: ScopeTerms
    every: NDArray[np.bool_]  # (C,) all devices that the pod selects, however many a node has
    functions: NDArray[np.int64]  # (C,) the vendor of the devices of which one is taken with each pick, or NO_VENDOR
    partitions: PartitionTerms
    joint: JointTerms
    scratch: ChoiceScratch


class ChoosyRequest(NamedTuple):
    """What a fit is asked for which more matters than the score and the amounts of devices."""

    shares: ShareRequest
    terms: ChoiceTerms


class ShareScratch(NamedTuple):
    """Work space for the node with the most devices (``M``)."""

    used: NDArray[np.int64]  # (2, M, K): [0] of what is running, [1] an init container's own
    score: NDArray[np.int64]  # (M,)
    tried: NDArray[np.bool_]  # (M,) for the claim at hand
    picks: NDArray[np.int64]  # (C, M) device numbers


class ShareClaim(NamedTuple):
    """A claim for which devices of a node are sought."""

    claim: int
    base: int  # the number of the node's first device
    wanted: int  # how many devices
    used: NDArray[np.int64]  # (devices, K) what is used of the node's devices when the claim is served
    scratch: ShareScratch
    counts: NDArray[np.int16]  # receives the number of devices that were passed over, by reason


@kernel
def why_not(columns: DeviceColumns, request: ShareRequest, claim: int, device: int, used: NDArray[np.int64]) -> int:
    """Return the reason why a device does not fit, or ``NO_REASON``; ``used`` is what is used of it, shape (K,)."""
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
    """Return what a device has too little of; ``total`` is what it has, shape (K,)."""
    anything_left = False
    anything_used = False
    for dimension in range(used.shape[0]):
        free = max(total[dimension] - used[dimension], 0)
        # A thing that the device has not, and of which nobody uses anything, is not compared.
        has = total[dimension] > 0 or used[dimension] > 0
        if has and request.claims.amounts[claim, dimension] > free:
            return request.reason[dimension]  # type: ignore[no-any-return]
        anything_left = anything_left or free > 0
        anything_used = anything_used or used[dimension] > 0
    if not anything_left:
        return reasons.EXHAUSTED
    return reasons.IN_USE if request.idle and anything_used else NO_REASON
