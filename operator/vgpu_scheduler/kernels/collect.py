"""The first step of a fit: collect the cards of a node that a claim could get, and the amounts of each.

The order of the checks and the reason counters are HAMi 2.10's.
"""

from __future__ import annotations

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.application_classes import refuses_occupant
from vgpu_scheduler.kernels.arrays import copy
from vgpu_scheduler.kernels.cache import inlined_kernel, kernel
from vgpu_scheduler.kernels.choose.dispatch import choose, is_strict
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.pieces import cores_of_piece, piece_for
from vgpu_scheduler.kernels.quotas import count_pick, is_within_quota, open_card, open_claim
from vgpu_scheduler.kernels.request import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    WHOLE,
    CardClaim,
    Offer,
    Request,
    Scratch,
    claimed_cores,
    resolve,
)
from vgpu_scheduler.kernels.rules import Check, Selection
from vgpu_scheduler.kernels.sentinels import NO_NUMA_NODE, NO_PIECE, NO_REASON, NOT_COUNTED, ZERO
from vgpu_scheduler.model import ContainerType

_NUMA = int(Check.NUMA)
_SLOTS = int(Check.SLOTS)
_IDLE = int(Check.IDLE)
_MEMORY = int(Check.MEMORY)
_CORES = int(Check.CORES)
_EXCLUSIVE = int(Check.EXCLUSIVE)
_COMPUTE = int(Check.COMPUTE)
_IDLE_GROUP = int(Check.IDLE_GROUP)
_CLASSES = int(Check.CLASSES)
_SAME_CARDS = int(Check.SAME_CARDS)
_EQUAL_SHARES = int(Check.EQUAL_SHARES)
_ONE_PIECE = int(Check.ONE_PIECE)
_PERCENT = int(Check.PERCENT)
_FIRST, _LINKED = int(Selection.FIRST), int(Selection.LINKED)
_INIT = int(ContainerType.INIT)


@inlined_kernel
def collect(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> int:
    """Try the cards of a node in reverse order, and write a candidate for each card that passes.

    It stops when the claim has enough, unless the cards are chosen from all candidates. If the cards of a claim must be
    on one NUMA node, the candidates at the end are of one NUMA node.

    Returns
    -------
    int
        The number of candidates written; ``here.counts`` has the reasons of the rejected cards.
    """
    claim = here.claim
    every = needs_every_card(request, claim)
    bound = request.cards.numa_bind and request.rules.checks[claim] & _NUMA != 0
    limited = request.quota_left.shape[0] > 0
    found, numa = ZERO, NO_NUMA_NODE
    if limited:
        open_claim(columns, request, scratch, here)
    for i in range(here.order.shape[0] - 1, -1, -1):
        device = here.base + here.order[i]
        if columns.vendor[device] != request.claims.vendor[claim]:
            continue
        reason = _why_out_of_service(columns, request, claim, device)
        if reason == NO_REASON and bound and columns.numa[device] != numa:
            if _is_numa_node_enough(columns, request, scratch, here, found):
                break
            if not request.order.topology:  # as documented: candidates of other NUMA nodes are rejected
                here.counts[reasons.OTHER_NUMA] += found
            if limited:
                open_claim(columns, request, scratch, here)
            found = ZERO
            numa = columns.numa[device]
        if reason == NO_REASON:
            found, reason = offer_card(columns, request, scratch, here, device, found)
        if reason >= 0:
            here.counts[reason] += 1
        if found >= request.claims.wanted[claim] and not every:
            break
    return found


@kernel
def needs_every_card(request: Request, claim: int) -> bool:
    """Tell whether the cards of a claim are chosen from all candidates, not from the first ones."""
    return request.order.topology or request.rules.selection[claim] != _FIRST


@kernel
def _why_out_of_service(columns: DeviceColumns, request: Request, claim: int, device: int) -> int:
    """Return why a card is rejected independent of its free amounts."""
    classes = request.rules.checks[claim] & _CLASSES != 0
    if not (columns.healthy[device] and columns.consistent[device]):
        return reasons.UNHEALTHY if classes else reasons.NOT_HEALTHY
    if columns.cordoned[device]:
        return reasons.CORDONED
    if request.cards.models[columns.model[device]] == 0:
        return reasons.OTHER_TYPE
    if request.cards.barred.shape[0] > 0 and request.cards.barred[device] == BARRED_BY_POLICY:
        return reasons.DENIED
    return refuses_occupant(columns, request, claim, device) if classes else NO_REASON


@inlined_kernel
def _is_numa_node_enough(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int
) -> bool:
    """Tell whether the candidates of one NUMA node are enough, and can be taken together if the selection is strict."""
    if found < request.claims.wanted[here.claim]:
        return False
    selection = request.rules.selection[here.claim]
    if not request.order.first_node and selection in (_FIRST, _LINKED):  # HAMi's topology-aware takes the last one
        return False
    if not is_strict(selection):
        return True
    copy(here.counts, scratch.counts)
    kept = choose(columns, request, scratch, here, found)
    copy(scratch.counts, here.counts)
    return kept >= request.claims.wanted[here.claim]  # type: ignore[no-any-return]


@kernel
def offer_card(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, device: int, found: int
) -> tuple[int, int]:
    """Check what is free of a card, and write its candidates.

    Returns the new number of candidates, and the reason why the card has no more.
    """
    claim, partitioned = here.claim, columns.partitioned[device]
    limited, one_piece = request.quota_left.shape[0] > 0, request.rules.checks[claim] & _ONE_PIECE != 0
    reason = _why_not_shared(columns, request, here, device)
    if reason != NO_REASON:
        return found, reason
    offer = _share_of(columns, request, claim, device)
    if one_piece:
        scratch.taken[:] = 0
        offer = _piece_of(columns, request, scratch, here, device)
    if limited:
        open_card(columns, scratch, here, device)
    # For cards that are given out in pieces, each piece is checked against the quotas below.
    if limited and not partitioned and not is_within_quota(columns, request, scratch, here, offer):
        reason = reasons.QUOTA
    elif one_piece and offer.piece == NO_PIECE:
        reason = reasons.TOO_FEW_CORES
    else:
        reason = _why_no_room(columns, request, scratch, here, offer)
    if reason == NO_REASON and partitioned and not one_piece:
        return _offer_pieces(columns, request, scratch, here, device, found)
    if reason == NO_REASON and limited and not needs_every_card(request, claim):
        reason = _count_within_quota(columns, request, scratch, here, offer)
    if reason == NO_REASON:
        _write_candidate(scratch, found, offer)
        found += 1
    return found, reason


@kernel
def _count_within_quota(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, offer: Offer
) -> int:
    """Count an offer as picked if quotas allow it in addition to the earlier picks; else return the reason."""
    if not is_within_quota(columns, request, scratch, here, offer):
        return reasons.QUOTA
    count_pick(scratch)
    return NO_REASON


@kernel
def _share_of(columns: DeviceColumns, request: Request, claim: int, device: int) -> Offer:
    memory = resolve(request, claim, columns.total, device, MEMORY)
    return Offer(device, NO_PIECE, memory, claimed_cores(request, claim, columns.total, device))


@kernel
def _piece_of(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, device: int) -> Offer:
    """Return the piece of a card that a claim would get in addition to what is ``taken`` of it, if any is free."""
    piece = piece_for(columns, request, here, device, scratch.taken)
    if piece == NO_PIECE:
        return Offer(device, NO_PIECE, 0, 0)
    cores = cores_of_piece(columns, request, here.claim, device, piece)
    return Offer(device, piece, columns.pieces[piece, MEMORY], cores)


@kernel
def _why_not_shared(columns: DeviceColumns, request: Request, here: CardClaim, device: int) -> int:
    """Return why a card accepts no further occupant, or not this claim."""
    position, checks = device - here.base, request.rules.checks[here.claim]
    if request.cards.barred.shape[0] > 0 and request.cards.barred[device] == BARRED_BY_UUID:
        return reasons.OTHER_UUID
    occupants = here.used[position, SLOTS]
    if checks & _SLOTS and columns.total[device, SLOTS] <= occupants:
        return reasons.EXHAUSTED
    idle = checks & _IDLE or (request.cards.mutex and not checks & _EQUAL_SHARES)
    if idle and (occupants > 0 or (checks & _IDLE_GROUP and _is_group_used(columns, here, device))):
        return reasons.IN_USE
    return NO_REASON


@kernel
def _is_group_used(columns: DeviceColumns, here: CardClaim, device: int) -> bool:
    """Tell whether a card of the same group is in use."""
    group, vendor = columns.group[device], columns.vendor[device]
    if group < 0:
        return False
    for position in range(here.used.shape[0]):
        other = here.base + position
        if columns.group[other] == group and columns.vendor[other] == vendor and here.used[position, SLOTS] > 0:
            return True
    return False


@kernel
def _why_no_room(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, offer: Offer) -> int:
    """Return which amount is insufficient on a card, or why it does not suit its occupants or the pod's other cards."""
    checks, total = request.rules.checks[here.claim], columns.total[offer.device]
    used = here.used[offer.device - here.base]
    cores = WHOLE if checks & _PERCENT else total[CORES]
    if checks & _MEMORY and total[MEMORY] - used[MEMORY] < offer.memory:
        return reasons.TOO_LITTLE_MEMORY
    if checks & _CORES and cores - used[CORES] < offer.cores:
        return reasons.TOO_FEW_CORES
    if checks & _EXCLUSIVE and cores == WHOLE and offer.cores == WHOLE and used[SLOTS] > 0:
        return reasons.IN_USE
    if checks & _COMPUTE and cores != 0 and used[CORES] == cores and offer.cores == 0:
        return reasons.NO_COMPUTE
    if offer.piece != NO_PIECE and total[SLOTS] - used[SLOTS] < columns.pieces[offer.piece, SLOTS]:
        return reasons.EXHAUSTED
    return _why_not_beside(request, scratch, here, offer)


@kernel
def _why_not_beside(request: Request, scratch: Scratch, here: CardClaim, offer: Offer) -> int:
    """Return why an offer does not suit a card's occupants, or the cards of the pod's other containers."""
    checks, used = request.rules.checks[here.claim], here.used[offer.device - here.base]
    if checks & _EQUAL_SHARES and used[SLOTS] > 0:
        if used[MEMORY] // used[SLOTS] != offer.memory:
            return NOT_COUNTED
        if request.cards.mutex:
            return reasons.IN_USE
    if checks & _SAME_CARDS and _is_elsewhere(request, scratch, here.claim, offer.device):
        return reasons.OTHER_CARD
    return NO_REASON


@kernel
def _is_elsewhere(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether a container that runs at the same time got another card of the vendor."""
    for other in range(claim):
        if request.claims.vendor[other] != request.claims.vendor[claim] or request.claims.kind[other] == _INIT:
            continue
        for i in range(request.claims.wanted[other]):
            if scratch.picks[other, i] != device:
                return True
    return False


@kernel
def _offer_pieces(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, device: int, found: int
) -> tuple[int, int]:
    """Write one candidate for each piece of a card that could be given out, as long as more are needed.

    Returns the new number of candidates, and the reason why the card has no more.
    """
    every = needs_every_card(request, here.claim)
    most = scratch.chosen.shape[0] if every else request.claims.wanted[here.claim]
    taken = scratch.taken
    taken[:] = 0
    while found < most:
        offer = _piece_of(columns, request, scratch, here, device)
        if offer.piece == NO_PIECE:
            return found, reasons.NO_PLACE
        if request.quota_left.shape[0] > 0:
            if not is_within_quota(columns, request, scratch, here, offer):
                return found, reasons.QUOTA
            if not every:
                count_pick(scratch)
        taken += columns.pieces[offer.piece]
        _write_candidate(scratch, found, offer)
        found += 1
    return found, NO_REASON


@kernel
def _write_candidate(scratch: Scratch, number: int, offer: Offer) -> None:
    scratch.candidates.device[number] = offer.device
    scratch.candidates.piece[number] = offer.piece
    scratch.candidates.memory[number] = offer.memory
    scratch.candidates.cores[number] = offer.cores
