"""HAMi's two-level scoring and the NVIDIA Fit, for many nodes in one call.

Rules and their source: the order of the checks and the reason counters are HAMi 2.10's (decisions C-12 and C-13);
the card score counts the claim itself on every card of the vendor (C-24); the node score is the load before the pod
(C-02). Scores are 32-bit floats, computed in HAMi's order of operations, so that ties fall where HAMi's fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vgpu_scheduler.kernels.deviceshare import NO_SHARE, ShareTerms, score_shares
from vgpu_scheduler.model import CardReason, ContainerKind

SLOTS = 0
MEMORY = 1
CORES = 2

REASONS = len(CardReason)
FITS = 1
NO_FIT = 0

# Sort keys of a card order, least significant last. A negative key sorts descending; the LAST card is tried first.
KEY_SCORE = 1
KEY_NUMA = 2
KEY_USED = 3
KEY_INDEX = 4
KEY_USED_MEMORY = 5
KEY_MEMORY_LEFT = 6  # what the claim would leave of the card
KEY_CORES_LEFT = 7

# Why single cards are left out.
BARRED_BY_UUID = 1
BARRED_BY_POLICY = 2

_INIT = int(ContainerKind.INIT)
_NOT_HEALTHY = int(CardReason.CardNotHealth)
_CORDONED = int(CardReason.CardCordoned)
_TYPE = int(CardReason.CardTypeMismatch)
_NUMA = int(CardReason.NumaNotFit)
_UUID = int(CardReason.CardUuidMismatch)
_EXHAUSTED = int(CardReason.CardTimeSlicingExhausted)
_EXCLUSIVE = int(CardReason.ExclusiveDeviceAllocateConflict)
_MEMORY = int(CardReason.CardInsufficientMemory)
_CORES = int(CardReason.CardInsufficientCore)
_COMPUTE = int(CardReason.CardComputeUnitsExhausted)
_TOO_FEW = int(CardReason.AllocatedCardsInsufficientRequest)
_TOO_FEW_CARDS = int(CardReason.NodeInsufficientDevice)
_UNREGISTERED = int(CardReason.NodeUnregistered)
_DENIED = int(CardReason.CardDeniedByPolicy)

_WHOLE = 100
_WEIGHT = np.float32(10.0)


class DeviceColumns(NamedTuple):
    """The device matrix: ``D`` devices, ``N`` node rows, ``K`` dimensions.

    The devices of node row ``r`` are ``first[r] : last[r]``, in canonical order (index, then UUID).
    """

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    total: NDArray[np.int64]  # (D, K)
    used: NDArray[np.int64]  # (D, K)
    vendor: NDArray[np.int32]  # (D,) interned vendor
    model: NDArray[np.int32]  # (D,) interned (vendor, type, mode)
    numa: NDArray[np.int64]  # (D,)
    ordinal: NDArray[np.int64]  # (D,) position on the node, as registered
    healthy: NDArray[np.bool_]  # (D,)
    cordoned: NDArray[np.bool_]  # (D,)


class Request(NamedTuple):
    """The claims of one pod and the rules that hold for it: ``C`` claims in container order, ``K`` dimensions."""

    container: NDArray[np.int64]  # (C,) number of the container, ascending
    kind: NDArray[np.int64]  # (C,) ContainerKind of that container
    vendor: NDArray[np.int32]  # (C,)
    wanted: NDArray[np.int64]  # (C,) number of cards
    amounts: NDArray[np.int64]  # (C, K)
    percent: NDArray[np.int64]  # (C, K)
    model_allowed: NDArray[np.bool_]  # (models,) by interned model
    device_barred: NDArray[np.int8]  # (D,) 0, BARRED_BY_UUID or BARRED_BY_POLICY; (0,) when none is
    order: NDArray[np.int64]  # sort keys, most significant first
    weights: NDArray[np.float32]  # (3,) of slots, memory, cores in the card score
    numa_bind: bool
    mutex: bool
    by_share: bool = False  # the card score is Koordinator's, with these terms
    share: ShareTerms = NO_SHARE


class Scratch(NamedTuple):
    """Work space for the node with the most cards (``M``)."""

    order: NDArray[np.int64]  # (2, M): [0] as the running containers left it, [1] an init container's own
    used: NDArray[np.int64]  # (2, M, K)
    score: NDArray[np.float32]  # (M,)
    keys: NDArray[np.float64]  # (M, number of sort keys) by position
    picks: NDArray[np.int64]  # (C, most cards of a claim) device numbers; -1 where unused


class FitResult(NamedTuple):
    """What is written for each node row asked about."""

    fits: NDArray[np.bool_]  # (N,)
    score: NDArray[np.float32]  # (N,)
    counts: NDArray[np.int16]  # (N, REASONS) cards passed over, of the first claim that did not fit; 0 if all fit
    cards: NDArray[np.int16]  # (N,) cards that this claim could choose from


@njit(cache=True)
def _resolve(request: Request, claim: int, total: NDArray[np.int64], device: int, dimension: int) -> int:
    amount = request.amounts[claim, dimension]
    if amount > 0:
        return amount  # type: ignore[no-any-return]
    return total[device, dimension] * request.percent[claim, dimension] // 100  # type: ignore[no-any-return]


@njit(cache=True)
def score_cards(
    columns: DeviceColumns, request: Request, claim: int, base: int, used: NDArray[np.int64], score: NDArray[np.float32]
) -> None:
    """Score every card of the node as if the whole container were placed on it (D0-06 to D0-13, C-24).

    Parameters
    ----------
    columns, request
        The device matrix; the pod's claims and weights.
    claim
        Number of the container's first claim.
    base
        Device number of the node's first card.
    used
        What is used of the node's cards, shape (cards, K).
    score
        Receives the scores, shape (>= cards,); 0 for a card without slots, memory or cores.
    """
    container = request.container[claim]
    for position in range(used.shape[0]):
        device = base + position
        slots = used[position, SLOTS]
        memory = used[position, MEMORY]
        cores = used[position, CORES]
        other = claim
        while other < request.container.shape[0] and request.container[other] == container:
            if request.vendor[other] == columns.vendor[device]:
                slots += request.wanted[other]
                memory += _resolve(request, other, columns.total, device, MEMORY)
                cores += _resolve(request, other, columns.total, device, CORES)
            other += 1
        count = columns.total[device, SLOTS]
        total_memory = columns.total[device, MEMORY]
        total_cores = columns.total[device, CORES]
        if count == 0 or total_memory == 0 or total_cores == 0:
            score[position] = np.float32(0.0)
            continue
        score[position] = _WEIGHT * (
            request.weights[SLOTS] * (np.float32(slots) / np.float32(count))
            + request.weights[CORES] * (np.float32(cores) / np.float32(total_cores))
            + request.weights[MEMORY] * (np.float32(memory) / np.float32(total_memory))
        )


@njit(cache=True)
def _write_keys(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    base: int,
    used: NDArray[np.int64],
    score: NDArray[np.float32],
    keys: NDArray[np.float64],
) -> None:
    """Write what the cards are sorted by, so that the smallest comes first for every key."""
    for k in range(request.order.shape[0]):
        key = request.order[k]
        kind = abs(key)
        sign = 1.0 if key > 0 else -1.0
        for position in range(used.shape[0]):
            device = base + position
            if kind == KEY_SCORE:
                value = np.float64(score[position])
            elif kind == KEY_NUMA:
                value = np.float64(columns.numa[device])
            elif kind == KEY_USED:
                value = np.float64(used[position, SLOTS])
            elif kind == KEY_INDEX:
                value = np.float64(columns.ordinal[device])
            elif kind == KEY_USED_MEMORY:
                value = np.float64(used[position, MEMORY])
            else:
                dimension = MEMORY if kind == KEY_MEMORY_LEFT else CORES
                taken = _resolve(request, claim, columns.total, device, dimension)
                value = np.float64(columns.total[device, dimension] - used[position, dimension]) - np.float64(taken)
            keys[position, k] = sign * value


@njit(cache=True)
def _sort_cards(keys: NDArray[np.float64], order: NDArray[np.int64]) -> None:
    """Sort the cards in place, stably: what an earlier container left decides between equal cards (C-18)."""
    for i in range(1, order.shape[0]):
        moving = order[i]
        j = i - 1
        while j >= 0:
            before = False
            for k in range(keys.shape[1]):
                a = keys[moving, k]
                b = keys[order[j], k]
                if a != b:
                    before = a < b
                    break
            if not before:
                break
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = moving


@njit(cache=True)
def _fit_claim(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    base: int,
    order: NDArray[np.int64],
    used: NDArray[np.int64],
    picks: NDArray[np.int64],
    counts: NDArray[np.int16],
) -> bool:
    """Walk the cards from the last to the first, check each, and book the picks; False when too few pass."""
    wanted = request.wanted[claim]
    picked = 0
    bound_numa = np.int64(-1)
    cores = min(request.amounts[claim, CORES], _WHOLE)
    for i in range(used.shape[0] - 1, -1, -1):
        position = order[i]
        device = base + position
        if columns.vendor[device] != request.vendor[claim]:
            continue
        if not columns.healthy[device]:
            counts[_NOT_HEALTHY] += 1
            continue
        if columns.cordoned[device]:
            counts[_CORDONED] += 1
            continue
        if not request.model_allowed[columns.model[device]]:
            counts[_TYPE] += 1
            continue
        barred = request.device_barred[device] if request.device_barred.shape[0] > 0 else 0
        if barred == BARRED_BY_POLICY:
            counts[_DENIED] += 1
            continue
        if request.numa_bind and columns.numa[device] != bound_numa:
            counts[_NUMA] += picked
            picked = 0
            bound_numa = columns.numa[device]
        if barred == BARRED_BY_UUID:
            counts[_UUID] += 1
            continue
        slots_used = used[position, SLOTS]
        if columns.total[device, SLOTS] <= slots_used:
            counts[_EXHAUSTED] += 1
            continue
        if request.mutex and slots_used > 0:
            counts[_EXCLUSIVE] += 1
            continue
        total_cores = columns.total[device, CORES]
        memory = _resolve(request, claim, columns.total, device, MEMORY)
        if columns.total[device, MEMORY] - used[position, MEMORY] < memory:
            counts[_MEMORY] += 1
            continue
        if total_cores - used[position, CORES] < cores:
            counts[_CORES] += 1
            continue
        if total_cores == _WHOLE and cores == _WHOLE and slots_used > 0:
            counts[_EXCLUSIVE] += 1
            continue
        if total_cores != 0 and used[position, CORES] == total_cores and cores == 0:
            counts[_COMPUTE] += 1
            continue
        picks[picked] = device
        picked += 1
        if picked == wanted:
            break
    if picked < wanted:
        if picked > 0:
            counts[_TOO_FEW] = picked
        return False
    for i in range(picked):
        position = picks[i] - base
        used[position, SLOTS] += 1
        used[position, MEMORY] += _resolve(request, claim, columns.total, picks[i], MEMORY)
        used[position, CORES] += cores
    return True


@njit(cache=True)
def _node_score(columns: DeviceColumns, first: int, last: int) -> np.float32:
    """Score the node by its load before the pod, over all its cards (D0-25 to D0-28)."""
    used = np.zeros(3, dtype=np.int64)
    total = np.zeros(3, dtype=np.int64)
    for device in range(first, last):
        for dimension in range(3):
            used[dimension] += columns.used[device, dimension]
            total[dimension] += columns.total[device, dimension]
    if total[SLOTS] == 0 or total[MEMORY] == 0 or total[CORES] == 0:
        return np.float32(0.0)
    return _WEIGHT * (
        np.float32(used[SLOTS]) / np.float32(total[SLOTS])
        + np.float32(used[CORES]) / np.float32(total[CORES])
        + np.float32(used[MEMORY]) / np.float32(total[MEMORY])
    )


@njit(cache=True)
def _fit_node(
    columns: DeviceColumns, request: Request, scratch: Scratch, row: int, counts: NDArray[np.int16], result: FitResult
) -> bool:
    base = columns.first[row]
    cards = columns.last[row] - base
    if cards == 0:
        counts[_UNREGISTERED] = 1
        return False
    running = scratch.used[0, :cards]
    own = scratch.used[1, :cards]
    running[:] = columns.used[base : base + cards]
    for position in range(cards):
        scratch.order[0, position] = position
    container = np.int64(-1)
    for claim in range(request.container.shape[0]):
        counts[:] = 0  # a reason belongs to the claim that did not fit, not to those before it
        init = request.kind[claim] == _INIT
        order = scratch.order[1, :cards] if init else scratch.order[0, :cards]
        used = own if init else running
        if request.container[claim] != container:
            container = request.container[claim]
            if init:  # init containers run one after the other: each finds only what runs beside it
                used[:] = running
                for position in range(cards):
                    order[position] = position
            if request.by_share:
                score_shares(columns, request, claim, base, used, scratch.score)
            else:
                score_cards(columns, request, claim, base, used, scratch.score)
        _write_keys(columns, request, claim, base, used, scratch.score, scratch.keys)
        _sort_cards(scratch.keys, order)
        choice = 0
        for position in range(cards):
            if columns.vendor[base + position] == request.vendor[claim]:
                choice += 1
        result.cards[row] = choice
        if choice < request.wanted[claim]:
            counts[_TOO_FEW_CARDS] = 1
            return False
        if not _fit_claim(columns, request, claim, base, order, used, scratch.picks[claim], counts):
            return False
    counts[:] = 0
    return True


@njit(cache=True)
def fit_nodes(
    columns: DeviceColumns, request: Request, scratch: Scratch, rows: NDArray[np.int64], result: FitResult
) -> None:
    """Fit a pod's claims on each of the given nodes and score the nodes.

    Parameters
    ----------
    columns
        The device matrix.
    request
        The pod's claims and rules.
    scratch
        Work space; ``scratch.picks`` holds the picks of the last node of ``rows`` when it fits.
    rows
        Node rows, shape (n,).
    result
        Written at each row of ``rows``: whether the pod fits, the node's score (also where it does not fit), the
        cards passed over by reason, and how many cards there were to choose from.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        counts = result.counts[row]
        counts[:] = 0
        result.cards[row] = 0
        result.fits[row] = _fit_node(columns, request, scratch, row, counts, result)
        result.score[row] = _node_score(columns, columns.first[row], columns.last[row])
