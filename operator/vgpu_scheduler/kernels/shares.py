"""Fit of devices that are shared by amounts: a device fits if it has enough free of each requested dimension.

The fit is Koordinator's: only requested dimensions that the device has are compared, and devices with nothing free are
rejected. Devices are tried in the order of the DeviceShare score, the highest first, then the lowest index; scores use
the usage before the container's claims. For claims that use the topology tree, only devices of one scope are tried; see
:mod:`kernels.choose.scopes`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.arrays import copy_rows
from vgpu_scheduler.kernels.cache import entry_kernel, inlined_kernel, kernel
from vgpu_scheduler.kernels.choose.partitions import is_bound_to_partitions
from vgpu_scheduler.kernels.choose.scopes import BY_SCORE
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.deviceshare import ShareAsk, share_score
from vgpu_scheduler.kernels.request import FitResult
from vgpu_scheduler.kernels.sentinels import NO_CARD, NO_CONTAINER, NO_REASON, NO_VENDOR
from vgpu_scheduler.kernels.share_choice import (
    follow,
    is_near_enough,
    keep_claim_scope,
    selected,
    take_function,
    take_partition,
)
from vgpu_scheduler.kernels.share_request import (
    ChoiceTerms,
    ConstrainedShareRequest,
    ShareClaim,
    ShareRequest,
    ShareScratch,
    why_not,
)
from vgpu_scheduler.model import ContainerType

_INIT = int(ContainerType.INIT)


@entry_kernel
def score_devices(
    columns: DeviceColumns,
    request: ShareRequest,
    claim: int,
    base: int,
    used: NDArray[np.int64],
    score: NDArray[np.int64],
) -> None:
    """Score each device of the claim's vendor as if the claim were placed on it.

    Parameters
    ----------
    columns, request, claim
        The device matrix; the pod's claims; the number of one.
    base
        Device number of the node's first device.
    used
        Usage of the node's devices, shape (devices, K).
    score
        Receives the scores, shape (>= devices,); entries of other vendors are not written.
    """
    for position in range(used.shape[0]):
        device = base + position
        if columns.vendor[device] == request.claims.vendor[claim]:
            asked = ShareAsk(columns.vendor[device], request.claims.amounts[claim], request.claims.percent[claim])
            score[position] = share_score(columns, device, used[position : position + 1], request.terms, asked)


@kernel
def _next(columns: DeviceColumns, vendor: int, base: int, score: NDArray[np.int64], tried: NDArray[np.bool_]) -> int:
    """Return the position of the best device that was not tried yet, or ``NO_CARD``."""
    best = NO_CARD
    for position in range(tried.shape[0]):
        if tried[position] or columns.vendor[base + position] != vendor:
            continue
        better = best == NO_CARD or score[position] > score[best]
        if not better and score[position] == score[best]:
            better = columns.ordinal[base + position] < columns.ordinal[base + best]
        if better:
            best = position
    return best


@kernel
def _pick(columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms | None, here: ShareClaim, most: int) -> int:
    """Pick among the devices that were not tried yet, the best first; return how many are picked."""
    claim, base, _, used, scratch, counts = here
    tried = scratch.tried[: used.shape[0]]
    picked = 0
    position = _next(columns, request.claims.vendor[claim], base, scratch.score, tried)
    while position != NO_CARD and picked < most:
        tried[position] = True
        reason = why_not(columns, request, claim, base + position, used[position])
        if terms is not None:  # noqa: SIM102 - the compiler drops this branch when terms is None
            if reason == NO_REASON:
                reason = take_function(columns, request, terms, here, picked, position)
        if reason == NO_REASON:
            scratch.picks[claim, picked] = base + position
            picked += 1
        else:
            counts[reason] += 1
        position = _next(columns, request.claims.vendor[claim], base, scratch.score, tried)
    return picked


@kernel
def _book(
    columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms | None, here: ShareClaim, picked: int
) -> None:
    """Book the devices that a claim has picked."""
    claim, base, _, used, scratch, _ = here
    picks = scratch.picks[claim]
    for i in range(picked):
        for dimension in range(used.shape[1]):
            used[picks[i] - base, dimension] += request.claims.amounts[claim, dimension]
    if terms is not None:  # noqa: SIM102 - see _pick
        if terms.functions[claim] != NO_VENDOR:
            for i in range(picked):
                function = terms.scratch.functions[claim, i]
                for dimension in range(used.shape[1]):
                    used[function - base, dimension] += columns.total[function, dimension]


@inlined_kernel
def _pick_by_terms(columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms, here: ShareClaim) -> int:
    """Pick devices by the choice terms; return how many are picked, 0 if they are too few."""
    claim, wanted = here.claim, here.wanted
    if terms.partitions.claims[claim]:
        if take_partition(columns, request, terms.partitions, here):
            return wanted
        if is_bound_to_partitions(terms.partitions, here.base):
            return 0
        here.counts[:] = 0
    by_tree = terms.scopes.level[claim] != BY_SCORE
    if by_tree and not keep_claim_scope(columns, request, terms.scopes, here):
        return 0
    least, most = wanted, wanted
    if terms.joint.follows[claim]:
        least, most = follow(columns, request, terms, here)
    picked = _pick(columns, request, terms, here, most)
    if picked >= least:
        return picked
    if picked > 0:
        here.counts[reasons.TOO_FEW] = picked
    return 0


@inlined_kernel
def _fit_claim(columns: DeviceColumns, request: ShareRequest, terms: ChoiceTerms | None, here: ShareClaim) -> bool:
    """Try the devices in order, and book the picks; return False if too few fit."""
    wanted = here.wanted
    here.scratch.tried[: here.used.shape[0]] = False
    if terms is None:
        picked = _pick(columns, request, terms, here, wanted)
        if picked < wanted and picked > 0:
            here.counts[reasons.TOO_FEW] = picked
        enough = picked >= wanted
    else:
        picked = _pick_by_terms(columns, request, terms, here)
        terms.scratch.picked[here.claim] = picked
        enough = picked >= wanted and is_near_enough(columns, terms, here)
    if enough:
        _book(columns, request, terms, here, picked)
    return enough


@kernel
def _listed(columns: DeviceColumns, vendor: int, base: int, devices: int) -> int:
    """Count the devices of a vendor on a node."""
    count = 0
    for device in range(base, base + devices):
        count += int(columns.vendor[device] == vendor)
    return count


@inlined_kernel
def _fit_node(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms | None,
    scratch: ShareScratch,
    row: int,
    counts: NDArray[np.int16],
    result: FitResult,
) -> bool:
    base = columns.first[row]
    devices = columns.last[row] - base
    if devices == 0:
        counts[reasons.UNREGISTERED] = 1
        return False
    running = scratch.used[0, :devices]
    own = scratch.used[1, :devices]
    copy_rows(columns.used[base : base + devices], running)
    container = NO_CONTAINER
    for number in range(request.claims.container.shape[0]):
        claim = number
        if terms is not None:
            claim = terms.joint.order[number]
        counts[:] = 0  # report only the reasons of the claim that does not fit
        init = request.claims.kind[claim] == _INIT
        used = own if init else running
        if request.claims.container[claim] != container:
            container = request.claims.container[claim]
            if init:  # init containers run one after the other, each only beside the running containers
                copy_rows(running, own)
        # A container has one claim per vendor, so no other claim of it has changed these scores.
        score_devices(columns, request, claim, base, used, scratch.score)
        choice = _listed(columns, request.claims.vendor[claim], base, devices)
        result.cards[row] = choice
        wanted = request.claims.wanted[claim]
        if terms is not None:  # noqa: SIM102 - see _pick
            if terms.every[claim]:
                wanted = max(selected(columns, request, claim, base, devices), 1)
        if choice < wanted:
            counts[reasons.TOO_FEW_CARDS] = 1
            return False
        if not _fit_claim(columns, request, terms, ShareClaim(claim, base, wanted, used, scratch, counts)):
            return False
    counts[:] = 0
    return True


@inlined_kernel
def _fit_nodes(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms | None,
    scratch: ShareScratch,
    rows: NDArray[np.int64],
    result: FitResult,
) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        counts = result.counts[row]
        counts[:] = 0
        result.cards[row] = 0
        result.fits[row] = _fit_node(columns, request, terms, scratch, row, counts, result)
        result.score[row] = 0.0


@entry_kernel
def fit_shares(
    columns: DeviceColumns, request: ShareRequest, scratch: ShareScratch, rows: NDArray[np.int64], result: FitResult
) -> None:
    """Fit a pod's claims on each of the given nodes.

    Parameters
    ----------
    columns
        The device matrix.
    request
        The pod's claims and the order of devices.
    scratch
        Work space; ``scratch.picks`` holds the picks of the last node of ``rows`` when it fits.
    rows
        Node rows, shape (n,).
    result
        Written at each row of ``rows``: whether the pod fits, the rejected devices by reason, and the number of
        devices to choose from. The node score is 0, because DeviceShare's score depends on the pod.
    """
    _fit_nodes(columns, request, None, scratch, rows, result)


@entry_kernel
def fit_constrained_shares(
    columns: DeviceColumns,
    request: ConstrainedShareRequest,
    scratch: ShareScratch,
    rows: NDArray[np.int64],
    result: FitResult,
) -> None:
    """Fit a pod's claims on each of the given nodes by choice terms in addition to score and amounts.

    Parameters
    ----------
    columns, request, scratch, rows, result
        As for :func:`fit_shares`.
    """
    _fit_nodes(columns, request.shares, request.terms, scratch, rows, result)
