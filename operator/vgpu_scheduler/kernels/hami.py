"""HAMi's two-level scoring and Fit, for many nodes in one call.

Rules and their source: the checks and the reason counters are HAMi 2.10's (:mod:`vgpu_scheduler.kernels.walk`); the
card score counts the claim itself on every card of the vendor (C-24); the node score is the load before the pod (C-02).
Scores are 32-bit floats, computed in HAMi's order of operations, so that ties fall where HAMi's fall.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.affinity import add_affinity
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.deviceshare import score_shares
from vgpu_scheduler.kernels.order import score_cards, sort_cards, write_keys
from vgpu_scheduler.kernels.partitions import offers_piece
from vgpu_scheduler.kernels.tables import (
    CHECK_MODE,
    CHECK_PIECE,
    CHECK_WORTH,
    CORES,
    MEMORY,
    OTHER_MODE,
    PEAK,
    SELECT_PAIRS,
    SLOTS,
    WEIGHT,
    DeviceColumns,
    FitResult,
    Request,
    Scratch,
    claimed_cores,
    resolve,
)
from vgpu_scheduler.kernels.walk import fit_claim
from vgpu_scheduler.model import CardReason, ContainerKind

_INIT = int(ContainerKind.INIT)
_MODE = int(CardReason.ModeNotFit)
_TOO_FEW_CARDS = int(CardReason.NodeInsufficientDevice)
_UNREGISTERED = int(CardReason.NodeUnregistered)


@kernel
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
    return WEIGHT * (
        np.float32(used[SLOTS]) / np.float32(total[SLOTS])
        + np.float32(used[CORES]) / np.float32(total[CORES])
        + np.float32(used[MEMORY]) / np.float32(total[MEMORY])
    )


@kernel
def _in_other_mode(columns: DeviceColumns, request: Request, claim: int, base: int, cards: int) -> bool:
    """Tell whether the maker's cards of a node are in another mode than the claim needs."""
    for device in range(base, base + cards):
        if columns.vendor[device] == request.vendor[claim]:
            return request.model_allowed[columns.model[device]] == OTHER_MODE  # type: ignore[no-any-return]
    return False


@kernel
def _offers_piece(columns: DeviceColumns, request: Request, claim: int, base: int, cards: int) -> bool:
    """Tell whether any card of the maker can be cut into a piece for the claim."""
    for device in range(base, base + cards):
        if columns.vendor[device] != request.vendor[claim]:
            continue
        memory = resolve(request, claim, columns.total, device, MEMORY)
        cores = claimed_cores(request, claim, columns.total, device)
        if offers_piece(columns, device, request.amounts[claim, SLOTS], memory, cores):
            return True
    return False


@kernel
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
    for position in range(cards):
        scratch.order[0, position] = position
        # What comes after the cores is of partitioned cards only, and read of them only.
        dimensions = running.shape[1] if columns.partitioned[base + position] else CORES + 1
        for dimension in range(dimensions):
            running[position, dimension] = columns.used[base + position, dimension]
    if request.left.shape[0] > 0:
        scratch.quota[PEAK:] = 0
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
        write_keys(columns, request, claim, base, used, scratch.score, scratch.keys)
        sort_cards(scratch.keys, order)
        choice = 0
        divided = False
        for position in range(cards):
            if columns.vendor[base + position] == request.vendor[claim]:
                choice += 1
                divided = divided or (columns.partitioned[base + position] and not request.checks[claim] & CHECK_PIECE)
        result.cards[row] = choice
        if choice < request.wanted[claim] and not (request.pieces and divided):
            counts[_TOO_FEW_CARDS] = 1
            return False
        if request.checks[claim] & CHECK_MODE and _in_other_mode(columns, request, claim, base, cards):
            counts[_MODE] = 1
            return False
        if request.checks[claim] & CHECK_PIECE and not _offers_piece(columns, request, claim, base, cards):
            counts[_MODE] = 1
            return False
        if not fit_claim(columns, request, claim, row, order, used, scratch, counts):
            if request.selection[claim] == SELECT_PAIRS and request.wanted[claim] > 1:
                result.cards[row] = request.wanted[claim]
            return False
        if request.affinity[claim] > 0 or request.checks[claim] & CHECK_WORTH:
            add_affinity(columns, request, scratch, claim, base, cards, result.affinity[row])
    counts[:] = 0
    return True


@kernel
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
        result.affinity[row] = np.float32(0.0)
        result.fits[row] = _fit_node(columns, request, scratch, row, counts, result)
        result.score[row] = _node_score(columns, columns.first[row], columns.last[row])
