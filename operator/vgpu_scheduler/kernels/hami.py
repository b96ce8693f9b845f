"""HAMi's two-level scoring and Fit, for many nodes in one call.

The checks and the reason counters are HAMi 2.10's (:mod:`vgpu_scheduler.kernels.collect`). The card score counts the
claim itself on every card of the vendor; the node score is the load before the pod.
Scores are 32-bit floats, computed in HAMi's order of operations, so that the same scores tie as in HAMi.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.arrays import copy_rows
from vgpu_scheduler.kernels.cache import entry_kernel, inlined_kernel, kernel
from vgpu_scheduler.kernels.choice_scores import add_choice_score
from vgpu_scheduler.kernels.claim import fit_claim
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.order import score_cards, score_shares, sort_cards, write_keys
from vgpu_scheduler.kernels.pieces import offers_piece
from vgpu_scheduler.kernels.request import (
    MODEL_IN_OTHER_MODE,
    PEAK,
    WEIGHT,
    CardClaim,
    FitResult,
    Request,
    Scratch,
)
from vgpu_scheduler.kernels.rules import Check
from vgpu_scheduler.kernels.sentinels import NO_CARD, NO_CONTAINER, NO_LOAD, NO_REASON
from vgpu_scheduler.model import ContainerType

_INIT = int(ContainerType.INIT)
_MODE, _ONE_PIECE = int(Check.MODE), int(Check.ONE_PIECE)
_RUNNING, _OWN = 0, 1
"""The rows of the work space: running containers, and an init container beside them."""


@kernel
def _node_score(columns: DeviceColumns, row: int) -> np.float32:
    """Score the node by its load before the pod, over all its cards."""
    slots, cores, memory = _load(columns, row, SLOTS), _load(columns, row, CORES), _load(columns, row, MEMORY)
    if min(slots, cores, memory) == NO_LOAD:
        return np.float32(0.0)
    return WEIGHT * (slots + cores + memory)


@kernel
def _load(columns: DeviceColumns, row: int, dimension: int) -> np.float32:
    """Return the used part of a dimension over all cards of a node; ``NO_LOAD`` if they have nothing of it."""
    used, total = 0, 0
    for device in range(columns.first[row], columns.last[row]):
        used += columns.used[device, dimension]
        total += columns.total[device, dimension]
    return np.float32(used) / np.float32(total) if total != 0 else NO_LOAD


@kernel
def _open_node(columns: DeviceColumns, request: Request, scratch: Scratch, base: int, cards: int) -> None:
    """Initialise the work space with the current usage of a node's cards."""
    running = scratch.used[_RUNNING]
    for position in range(cards):
        scratch.order[_RUNNING, position] = position
        # Dimensions after the cores are only read for partitioned cards.
        dimensions = running.shape[1] if columns.partitioned[base + position] else CORES + 1
        for dimension in range(dimensions):
            running[position, dimension] = columns.used[base + position, dimension]
    if request.quota_left.shape[0] > 0:
        scratch.quota[PEAK:] = 0


@kernel
def open_container(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> None:
    """Score the cards for a container; an init container only sees the usage of the running containers."""
    if request.claims.kind[here.claim] == _INIT:
        cards = here.used.shape[0]
        copy_rows(scratch.used[_RUNNING, :cards], here.used)
        for position in range(cards):
            here.order[position] = position
    if request.order.by_share:
        score_shares(columns, request, here, scratch.score)
    else:
        score_cards(columns, request, here, scratch.score)


@kernel
def why_not_on_node(columns: DeviceColumns, request: Request, here: CardClaim) -> int:
    """Return why a node is rejected before its cards are tried one by one; write its number of cards of the vendor."""
    claim, one_piece = here.claim, request.rules.checks[here.claim] & _ONE_PIECE != 0
    theirs, first, divided, offered = 0, NO_CARD, False, False
    for device in range(here.base, here.base + here.used.shape[0]):
        if columns.vendor[device] == request.claims.vendor[claim]:
            theirs += 1
            first = device if first == NO_CARD else first
            divided = divided or columns.partitioned[device]
            offered = offered or (one_piece and offers_piece(columns, request, claim, device))
    here.cards[0] = theirs
    if theirs < request.claims.wanted[claim] and not (request.cards.pieces and divided and not one_piece):
        return reasons.TOO_FEW_CARDS
    if (
        request.rules.checks[claim] & _MODE
        and first != NO_CARD
        and request.cards.models[columns.model[first]] == MODEL_IN_OTHER_MODE
    ):
        return reasons.OTHER_MODE
    return reasons.OTHER_MODE if one_piece and not offered else NO_REASON


@inlined_kernel
def _fit_node(columns: DeviceColumns, request: Request, scratch: Scratch, row: int, result: FitResult) -> bool:
    base, counts = columns.first[row], result.counts[row]
    cards = columns.last[row] - base
    if cards == 0:
        counts[reasons.UNREGISTERED] = 1
        return False
    _open_node(columns, request, scratch, base, cards)
    container = NO_CONTAINER
    for claim in range(request.claims.container.shape[0]):
        counts[:] = 0  # report only the reasons of the claim that does not fit
        space = _OWN if request.claims.kind[claim] == _INIT else _RUNNING
        order, used = scratch.order[space, :cards], scratch.used[space, :cards]
        here = CardClaim(claim, row, base, order, used, counts, result.cards[row : row + 1])
        if request.claims.container[claim] != container:
            container = request.claims.container[claim]
            open_container(columns, request, scratch, here)
        reason = why_not_on_node(columns, request, here)
        if reason != NO_REASON:
            counts[reason] = 1
            return False
        write_keys(columns, request, scratch, here)
        sort_cards(scratch.keys, order)
        if not fit_claim(columns, request, scratch, here):
            return False
        if request.rules.choice_weight[claim] > 0 or request.rules.link_score[claim]:
            add_choice_score(columns, request, scratch, here, result.choice_score[row])
    counts[:] = 0
    return True


@entry_kernel
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
        rejected cards by reason, and the number of cards to choose from.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        result.counts[row] = 0
        result.cards[row] = 0
        result.choice_score[row] = np.float32(0.0)
        result.fits[row] = _fit_node(columns, request, scratch, row, result)
        result.score[row] = _node_score(columns, row)
