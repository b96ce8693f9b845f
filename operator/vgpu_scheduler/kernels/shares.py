"""Devices that are shared by amounts alone: a device fits if it has enough left of each thing that is asked of it.

The fit is Koordinator's: only what is asked is compared, only with what the device has at all, and devices of which
nothing is left are passed over. Devices are tried in the order of the DeviceShare score, the highest first, then the
lowest index; the claims of a container are scored as the container's begin. Where a claim has its devices chosen
by the topology tree, only those of one scope are tried; see :mod:`kernels.choose.scopes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.arrays import copy_rows
from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.choose.scopes import BY_SCORE, ScopeTerms, has_tree, keep_scope
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.deviceshare import ShareAsk, ShareTerms, share_score
from vgpu_scheduler.kernels.request import BARRED_BY_POLICY, BARRED_BY_SELECTOR, FitResult, PodDemand
from vgpu_scheduler.kernels.sentinels import NO_CARD, NO_CONTAINER, NO_REASON, NO_VENDOR
from vgpu_scheduler.model import ContainerKind

_INIT = int(ContainerKind.INIT)


class ShareRequest(NamedTuple):
    """What a fit is asked: the claims of one pod, and which devices are tried in which order."""

    claims: PodDemand
    device_barred: NDArray[np.int8]  # (D,) 0, or by policy, mode or selector (``BARRED_…``); (0,) when none is
    reason: NDArray[np.int64]  # (K,) the CardReason of a device that has too little of a dimension
    idle: bool  # only devices that nobody uses
    terms: ShareTerms  # the order


class ChoiceTerms(NamedTuple):
    """How the devices of each claim are chosen, where score and amounts are not all."""

    scopes: ScopeTerms
    every: NDArray[np.bool_]  # (C,) all devices that the pod selects, however many a node has
    functions: NDArray[np.int64]  # (C,) the vendor of the devices of which one is taken with each pick, or NO_VENDOR


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
    picked: NDArray[np.int64]  # (C,) how many of them each claim has
    functions: NDArray[np.int64]  # (C, M) what is taken with each pick, where something is


@kernel
def _why_not(columns: DeviceColumns, request: ShareRequest, claim: int, device: int, used: NDArray[np.int64]) -> int:
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
        What is used of the node's devices, shape (devices, K).
    score
        Receives the scores, shape (>= devices,); those of other vendors are left alone.
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
def _keep_scope(
    columns: DeviceColumns,
    request: ShareRequest,
    scopes: ScopeTerms,
    here: tuple[int, int, int],
    used: NDArray[np.int64],
    scratch: ShareScratch,
    counts: NDArray[np.int16],
) -> bool:
    """Mark as tried all devices but those of the scope that a claim is served from; False where there is none."""
    claim, base, wanted = here
    tried = scratch.tried[: used.shape[0]]
    vendor = request.claims.vendor[claim]
    known = has_tree(columns, vendor, base, used.shape[0])
    if not known and not scopes.required:
        return True
    found = 0
    for position in range(used.shape[0]):
        tried[position] = columns.vendor[base + position] != vendor
        if not tried[position]:
            reason = _why_not(columns, request, claim, base + position, used[position])
            if reason == NO_REASON:
                found += 1
            else:
                counts[reason] += 1
                tried[position] = True
    if found < wanted:
        if found > 0:
            counts[reasons.TOO_FEW] = found
        return False
    if scopes.whole[claim]:
        scratch.score[: used.shape[0]] = 0
    if known and keep_scope(columns, scopes.level[claim], wanted, base, used, scratch.score, tried):
        return True
    counts[reasons.OTHER_NUMA] = found
    return False


@kernel
def _is_used(used: NDArray[np.int64]) -> bool:
    """Tell whether anything of a device is in use; ``used`` is what is, shape (K,)."""
    in_use = False
    for dimension in range(used.shape[0]):
        in_use = in_use or used[dimension] > 0
    return in_use


@kernel
def _function_of(
    columns: DeviceColumns, request: ShareRequest, vendor: int, base: int, position: int, used: NDArray[np.int64]
) -> int:
    """Return the first device of a vendor that belongs to one at a position and that nobody has, or ``NO_CARD``.

    It belongs to the device whose ordinal its group is.
    """
    best = NO_CARD
    for other in range(used.shape[0]):
        device = base + other
        if columns.vendor[device] != vendor or columns.group[device] != columns.ordinal[base + position]:
            continue
        if not columns.healthy[device] or columns.cordoned[device] or _is_used(used[other]):
            continue
        if request.device_barred.shape[0] > 0 and request.device_barred[device] != 0:
            continue
        if best == NO_CARD or columns.ordinal[device] < columns.ordinal[best]:
            best = device
    return best


@kernel
def _take_function(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms,
    here: tuple[int, int, int],
    used: NDArray[np.int64],
    scratch: ShareScratch,
    pick: tuple[int, int],
) -> int:
    """Take what goes with a pick, the number and position of which are given; return the reason why there is none."""
    claim, base, _ = here
    number, position = pick
    vendor = terms.functions[claim]
    if vendor == NO_VENDOR:
        return NO_REASON
    function = _function_of(columns, request, vendor, base, position, used)
    scratch.functions[claim, number] = function
    return NO_REASON if function != NO_CARD else reasons.NO_FUNCTION


@kernel
def _pick(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms | None,
    here: tuple[int, int, int],
    used: NDArray[np.int64],
    scratch: ShareScratch,
    counts: NDArray[np.int16],
) -> int:
    """Pick among the devices that were not tried yet, the best first; return how many are picked."""
    claim, base, wanted = here
    tried = scratch.tried[: used.shape[0]]
    picked = 0
    position = _next(columns, request.claims.vendor[claim], base, scratch.score, tried)
    while position != NO_CARD and picked < wanted:
        tried[position] = True
        reason = _why_not(columns, request, claim, base + position, used[position])
        if terms is not None:  # noqa: SIM102 - without terms the compiler leaves all of it out
            if reason == NO_REASON:
                reason = _take_function(columns, request, terms, here, used, scratch, (picked, position))
        if reason == NO_REASON:
            scratch.picks[claim, picked] = base + position
            picked += 1
        else:
            counts[reason] += 1
        position = _next(columns, request.claims.vendor[claim], base, scratch.score, tried)
    return picked


@kernel
def _book(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms | None,
    here: tuple[int, int, int],
    used: NDArray[np.int64],
    scratch: ShareScratch,
) -> None:
    """Book what a claim has picked."""
    claim, base, _ = here
    picks, picked = scratch.picks[claim], scratch.picked[claim]
    for i in range(picked):
        for dimension in range(used.shape[1]):
            used[picks[i] - base, dimension] += request.claims.amounts[claim, dimension]
    if terms is not None:  # noqa: SIM102 - see _pick
        if terms.functions[claim] != NO_VENDOR:
            for i in range(picked):
                function = scratch.functions[claim, i]
                for dimension in range(used.shape[1]):
                    used[function - base, dimension] += columns.total[function, dimension]


@kernel
def _fit_claim(
    columns: DeviceColumns,
    request: ShareRequest,
    terms: ChoiceTerms | None,
    here: tuple[int, int, int],
    used: NDArray[np.int64],
    scratch: ShareScratch,
    counts: NDArray[np.int16],
) -> bool:
    """Try the devices in their order, and book the picks; False when too few fit."""
    claim, _, wanted = here
    scratch.tried[: used.shape[0]] = False
    if terms is not None:
        scopes = terms.scopes
        if scopes.level[claim] != BY_SCORE and not _keep_scope(columns, request, scopes, here, used, scratch, counts):
            return False
    picked = _pick(columns, request, terms, here, used, scratch, counts)
    if picked < wanted:
        if picked > 0:
            counts[reasons.TOO_FEW] = picked
        return False
    scratch.picked[claim] = picked
    _book(columns, request, terms, here, used, scratch)
    return True


@kernel
def _selected(columns: DeviceColumns, request: ShareRequest, claim: int, base: int, devices: int) -> int:
    """Count the devices of a claim's vendor that the pod selects, whether it may have them or not."""
    barred = request.device_barred
    selected = 0
    for device in range(base, base + devices):
        if columns.vendor[device] == request.claims.vendor[claim]:
            selected += int(barred.shape[0] == 0 or barred[device] != BARRED_BY_SELECTOR)
    return selected


@kernel
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
    for claim in range(request.claims.container.shape[0]):
        counts[:] = 0  # a reason belongs to the claim that did not fit, not to those before it
        init = request.claims.kind[claim] == _INIT
        used = own if init else running
        if request.claims.container[claim] != container:
            container = request.claims.container[claim]
            if init:  # init containers run one after the other: each finds only what runs beside it
                copy_rows(running, own)
        # A container claims devices of a vendor once, so that no claim of its own can have changed this score.
        score_devices(columns, request, claim, base, used, scratch.score)
        choice = 0
        for position in range(devices):
            if columns.vendor[base + position] == request.claims.vendor[claim]:
                choice += 1
        result.cards[row] = choice
        wanted = request.claims.wanted[claim]
        if terms is not None:  # noqa: SIM102 - see _pick
            if terms.every[claim]:
                wanted = max(_selected(columns, request, claim, base, devices), 1)
        if choice < wanted:
            counts[reasons.TOO_FEW_CARDS] = 1
            return False
        if not _fit_claim(columns, request, terms, (claim, base, wanted), used, scratch, counts):
            return False
    counts[:] = 0
    return True


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
        Written at each row of ``rows``: whether the pod fits, the devices passed over by reason, and how many there
        were to choose from; the score of nodes is 0, because DeviceShare's depends on the pod.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        counts = result.counts[row]
        counts[:] = 0
        result.cards[row] = 0
        result.fits[row] = _fit_node(columns, request, None, scratch, row, counts, result)
        result.score[row] = 0.0


@entry_kernel
def fit_choosy_shares(
    columns: DeviceColumns, request: ChoosyRequest, scratch: ShareScratch, rows: NDArray[np.int64], result: FitResult
) -> None:
    """Fit a pod's claims on each of the given nodes, where more decides than the score and the amounts of devices.

    Parameters
    ----------
    columns, request, scratch, rows, result
        As for :func:`fit_shares`.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        counts = result.counts[row]
        counts[:] = 0
        result.cards[row] = 0
        result.fits[row] = _fit_node(columns, request.shares, request.terms, scratch, row, counts, result)
        result.score[row] = 0.0
