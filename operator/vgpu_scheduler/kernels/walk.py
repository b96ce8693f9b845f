"""One claim on the cards of one node: the walk over them with its checks, the choice among those that pass, booking.

The order of the checks and the reason counters are HAMi 2.10's (decisions C-12 and C-13).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.partitions import NO_PIECE, is_of_template, piece_for
from vgpu_scheduler.kernels.quotas import (
    keep_within_quota,
    open_card,
    open_claim,
    piece_within_quota,
    raise_peak,
    within_quota,
)
from vgpu_scheduler.kernels.selection import (
    NONE_OF_THEM,
    gather_groups,
    is_elsewhere,
    is_group_used,
    keep_pairs,
    keep_run,
)
from vgpu_scheduler.kernels.tables import (
    BARRED_BY_POLICY,
    BARRED_BY_UUID,
    CHECK_CLASS,
    CHECK_COMPUTE,
    CHECK_CORES,
    CHECK_EXCLUSIVE,
    CHECK_GROUP,
    CHECK_IDLE,
    CHECK_MEMORY,
    CHECK_NUMA,
    CHECK_PERCENT,
    CHECK_PIECE,
    CHECK_SLOTS,
    CORES,
    MEMORY,
    SELECT_GROUPED,
    SELECT_PAIRS,
    SELECT_RUN,
    SELECT_SAME,
    SELECT_WELCOME,
    SELECT_WINGS,
    SELECT_ZONE,
    SLOTS,
    DeviceColumns,
    Request,
    Scratch,
    claimed_cores,
    resolve,
)
from vgpu_scheduler.kernels.tenants import NO_REASON, refuses_tenant, welcome_first, zone_first
from vgpu_scheduler.kernels.topology import choose_linked
from vgpu_scheduler.kernels.wings import keep_wings, word_wings
from vgpu_scheduler.model import CardReason

_NOT_HEALTHY = int(CardReason.CardNotHealth)
_UNHEALTHY = int(CardReason.CardUnhealthy)
_CORDONED = int(CardReason.CardCordoned)
_TYPE = int(CardReason.CardTypeMismatch)
_NUMA = int(CardReason.NumaNotFit)
_UUID = int(CardReason.CardUuidMismatch)
_EXHAUSTED = int(CardReason.CardTimeSlicingExhausted)
_EXCLUSIVE = int(CardReason.ExclusiveDeviceAllocateConflict)
_QUOTA = int(CardReason.ResourceQuotaNotFit)
_MEMORY = int(CardReason.CardInsufficientMemory)
_CORES = int(CardReason.CardInsufficientCore)
_COMPUTE = int(CardReason.CardComputeUnitsExhausted)
_PIECE = int(CardReason.CardMigTopologyInfeasible)
_TOO_FEW = int(CardReason.AllocatedCardsInsufficientRequest)
_CUSTOM = int(CardReason.CardNotFoundCustomFilterRule)
_DENIED = int(CardReason.CardDeniedByPolicy)

_WHOLE = 100


@kernel
def fit_claim(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    order: NDArray[np.int64],
    used: NDArray[np.int64],
    scratch: Scratch,
    counts: NDArray[np.int16],
) -> bool:
    """Walk the cards from the last to the first, check each, and book the picks; False when too few pass."""
    wanted = request.wanted[claim]
    base = columns.first[row]
    picks = scratch.picks[claim]
    picked = 0
    bound_numa = np.int64(-1)
    checks = request.checks[claim]
    bound = request.numa_bind and checks & CHECK_NUMA != 0
    selection = request.selection[claim]
    grouped = wanted > 1 and selection == SELECT_GROUPED
    paired = wanted > 1 and selection == SELECT_PAIRS
    in_a_row = wanted > 1 and selection == SELECT_RUN
    winged = selection == SELECT_WINGS
    welcomed = selection == SELECT_WELCOME
    zoned = selection == SELECT_ZONE and request.amounts[claim, CORES] >= _WHOLE
    together = paired or in_a_row or winged or welcomed or zoned
    collected = request.topology or together
    idle = (request.mutex and not winged) or checks & CHECK_IDLE != 0
    later = collected or grouped
    limited = request.left.shape[0] > 0
    if limited:
        open_claim(columns, request, claim, row, scratch)
    for i in range(used.shape[0] - 1, -1, -1):
        position = order[i]
        device = base + position
        if columns.vendor[device] != request.vendor[claim]:
            continue
        if not (columns.healthy[device] and columns.explained[device]):
            counts[_UNHEALTHY if checks & CHECK_CLASS else _NOT_HEALTHY] += 1
            continue
        if columns.cordoned[device]:
            counts[_CORDONED] += 1
            continue
        if request.model_allowed[columns.model[device]] == 0:
            counts[_TYPE] += 1
            continue
        barred = request.device_barred[device] if request.device_barred.shape[0] > 0 else 0
        if barred == BARRED_BY_POLICY:
            counts[_DENIED] += 1
            continue
        if checks & CHECK_CLASS:
            refusal = refuses_tenant(columns, request, claim, device)
            if refusal != NO_REASON:
                counts[refusal] += 1
                continue
        if bound and columns.numa[device] != bound_numa:
            if (request.first_node or grouped or together) and _suffices(
                columns, request, claim, picks, picked, scratch
            ):
                break
            if not request.topology:  # as documented: candidates of other nodes are no picks (D2-39)
                counts[_NUMA] += picked
            picked = 0
            bound_numa = columns.numa[device]
            if limited:
                open_claim(columns, request, claim, row, scratch)
        if barred == BARRED_BY_UUID:
            counts[_UUID] += 1
            continue
        slots_used = used[position, SLOTS]
        if checks & CHECK_SLOTS and columns.total[device, SLOTS] <= slots_used:
            counts[_EXHAUSTED] += 1
            continue
        if idle and (slots_used > 0 or (checks & CHECK_GROUP != 0 and is_group_used(columns, base, position, used))):
            counts[_EXCLUSIVE] += 1
            continue
        total_cores = _WHOLE if checks & CHECK_PERCENT else columns.total[device, CORES]
        memory = resolve(request, claim, columns.total, device, MEMORY)
        cores = claimed_cores(request, claim, columns.total, device)
        if limited:
            open_card(columns, device, used[position], scratch)
            shared = not columns.partitioned[device]  # of the others each piece is checked
            if shared and not within_quota(columns, request, claim, row, position, memory, cores, False, scratch):
                counts[_QUOTA] += 1
                continue
        slots = 0
        if checks & CHECK_PIECE:
            scratch.taken[:] = 0
            piece = piece_for(columns, request, claim, device, used[position], scratch.taken)
            if piece == NO_PIECE:
                counts[_CORES] += 1
                continue
            slots, memory, cores = (
                columns.pieces[piece, SLOTS],
                columns.pieces[piece, MEMORY],
                columns.pieces[piece, CORES],
            )
        if checks & CHECK_MEMORY and columns.total[device, MEMORY] - used[position, MEMORY] < memory:
            counts[_MEMORY] += 1
            continue
        if checks & CHECK_CORES and total_cores - used[position, CORES] < cores:
            counts[_CORES] += 1
            continue
        if checks & CHECK_EXCLUSIVE and total_cores == _WHOLE and cores == _WHOLE and slots_used > 0:
            counts[_EXCLUSIVE] += 1
            continue
        if checks & CHECK_COMPUTE and total_cores != 0 and used[position, CORES] == total_cores and cores == 0:
            counts[_COMPUTE] += 1
            continue
        if columns.total[device, SLOTS] - slots_used < slots:
            counts[_EXHAUSTED] += 1
            continue
        if winged and slots_used > 0:
            if used[position, MEMORY] // slots_used != memory:
                continue
            if request.mutex:
                counts[_EXCLUSIVE] += 1
                continue
        if selection == SELECT_SAME and is_elsewhere(request, scratch, claim, device):
            counts[_CUSTOM] += 1
            continue
        if columns.partitioned[device] and slots == 0:
            most = picks.shape[0] if request.topology else wanted
            picked, why = _pick_pieces(columns, request, claim, row, device, used[position], most, picked, scratch)
            if picked < most:
                counts[why] += 1
        else:
            if (
                limited
                and not later
                and not within_quota(columns, request, claim, row, position, memory, cores, True, scratch)
            ):
                counts[_QUOTA] += 1
                continue
            picks[picked] = device
            picked += 1
        if picked == wanted and not collected and not (grouped and columns.group[device] >= 0):
            break
    if paired:
        picked = keep_pairs(columns, picks, picked, scratch.spare)
        if picked < wanted:  # HAMi says how many of how many, 0 included
            counts[_TOO_FEW] = picked if picked > 0 else NONE_OF_THEM
            return False
    if winged:
        picked = keep_wings(columns, picks, picked, wanted, scratch.spare)
        if picked == 0:
            word_wings(columns, request, claim, row, counts)
    if welcomed:
        welcome_first(columns, picks, picked)
    if in_a_row:
        picked = keep_run(columns, picks, picked, wanted, scratch.spare)
        if picked == 0:
            counts[:] = 0
            counts[_NUMA] = 1
    if picked >= wanted and later and limited:
        picked = _choose_within_quota(columns, request, claim, row, picks, picked, used, scratch, counts)
    elif picked > wanted and not paired:
        _arrange(columns, request, claim, row, picks, picked, scratch)
    if picked < wanted:
        if picked > 0:
            counts[_TOO_FEW] = picked
        return False
    for i in range(wanted):
        _book(columns, request, claim, picks[i], used[picks[i] - base], scratch, i)
        if limited:
            raise_peak(columns, picks[i], picks[i] - base, used[picks[i] - base], scratch)
    return True


@kernel
def _suffices(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    picks: NDArray[np.int64],
    picked: int,
    scratch: Scratch,
) -> bool:
    """Tell whether the candidates of one NUMA node are enough, and go together where they must."""
    wanted, kept = request.wanted[claim], picked
    together = scratch.pieces[claim]  # nothing is booked yet
    together[:picked] = picks[:picked]
    if wanted > 1 and request.selection[claim] == SELECT_PAIRS:
        kept = keep_pairs(columns, together, picked, scratch.spare)
    elif wanted > 1 and request.selection[claim] == SELECT_RUN:
        kept = keep_run(columns, together, picked, wanted, scratch.spare)
    elif request.selection[claim] == SELECT_WINGS:
        kept = keep_wings(columns, together, picked, wanted, scratch.spare)
    return kept >= wanted  # type: ignore[no-any-return]


@kernel
def _arrange(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    picks: NDArray[np.int64],
    picked: int,
    scratch: Scratch,
) -> None:
    """Put those of the candidates first that belong together."""
    if request.selection[claim] == SELECT_GROUPED and request.wanted[claim] > 1:
        gather_groups(columns, picks, picked, scratch.spare)
    elif request.selection[claim] == SELECT_ZONE:
        if request.amounts[claim, CORES] >= _WHOLE:
            zone_first(columns, picks, picked, request.wanted[claim], scratch.spare)
    elif request.selection[claim] != SELECT_WELCOME:
        choose_linked(columns, row, picks, picked, request.wanted[claim], scratch.links)


@kernel
def _choose_within_quota(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    picks: NDArray[np.int64],
    picked: int,
    used: NDArray[np.int64],
    scratch: Scratch,
    counts: NDArray[np.int16],
) -> int:
    """Choose among candidates that are within the quotas one by one; return how many are within them together."""
    wanted, candidates = request.wanted[claim], scratch.pieces[claim]  # nothing is booked yet
    candidates[:picked] = picks[:picked]
    together = request.selection[claim] in (SELECT_PAIRS, SELECT_RUN, SELECT_WINGS)
    if picked > wanted and not together:
        _arrange(columns, request, claim, row, picks, picked, scratch)
    if keep_within_quota(columns, request, claim, row, picks, wanted, used, scratch) == wanted:
        return wanted  # type: ignore[no-any-return]
    if together:  # others would tear apart what is linked
        counts[_QUOTA] += picked
        return 0
    picks[:picked] = candidates[:picked]
    kept = keep_within_quota(columns, request, claim, row, picks, picked, used, scratch)
    if kept < wanted:
        counts[_QUOTA] += picked - kept
    return kept


@kernel
def _pick_pieces(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    row: int,
    device: int,
    used: NDArray[np.int64],
    most: int,
    picked: int,
    scratch: Scratch,
) -> tuple[int, int]:
    """Pick a card once for each of its free pieces, as long as fewer than ``most`` are picked.

    Returns how many are picked then, and why there are no more.
    """
    picks, taken = scratch.picks[claim], scratch.taken
    position = device - columns.first[row]
    taken[:] = 0
    while picked < most:
        piece = piece_for(columns, request, claim, device, used, taken)
        if piece == NO_PIECE:
            break
        if request.left.shape[0] > 0:
            counted = not request.topology
            if not piece_within_quota(columns, request, claim, row, position, piece, counted, scratch):
                return picked, _QUOTA
        taken += columns.pieces[piece]
        picks[picked] = device
        picked += 1
    return picked, _PIECE


@kernel
def _book(
    columns: DeviceColumns,
    request: Request,
    claim: int,
    device: int,
    used: NDArray[np.int64],
    scratch: Scratch,
    number: int,
) -> None:
    """Add a pick to what is used of its card: the piece that it gets, or the share that the claim asks for."""
    memory = resolve(request, claim, columns.total, device, MEMORY)
    cores = claimed_cores(request, claim, columns.total, device)
    piece = NO_PIECE
    if columns.partitioned[device]:
        scratch.taken[:] = 0
        piece = piece_for(columns, request, claim, device, used, scratch.taken)
        used += columns.pieces[piece]
        if is_of_template(columns, piece):  # templates say nothing of cores
            used[CORES] += cores
    else:
        used[SLOTS] += request.amounts[claim, SLOTS]
        used[MEMORY] += memory
        used[CORES] += cores
    scratch.pieces[claim, number] = piece
