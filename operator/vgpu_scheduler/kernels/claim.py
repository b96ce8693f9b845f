"""Fit of one claim on one node in three steps: collect candidates, choose among them, book the chosen ones."""

from __future__ import annotations

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.cache import inlined_kernel, kernel
from vgpu_scheduler.kernels.choose.dispatch import choose, is_strict
from vgpu_scheduler.kernels.choose.first import choose_first
from vgpu_scheduler.kernels.collect import collect, needs_every_card
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.quotas import keep_within_quota, raise_peak
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.sentinels import NO_PIECE


@inlined_kernel
def fit_claim(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> bool:
    """Choose and book cards of a node for a claim; return False, with reasons in ``here.counts``, if too few fit."""
    wanted = request.claims.wanted[here.claim]
    found = collect(columns, request, scratch, here)
    kept = choose(columns, request, scratch, here, found)
    if kept >= wanted and request.quota_left.shape[0] > 0 and needs_every_card(request, here.claim):
        kept = _choose_within_quota(columns, request, scratch, here, found, kept)
    if kept < wanted:
        if kept > 0:
            here.counts[reasons.TOO_FEW] = kept
        return False
    book(columns, request, scratch, here)
    return True


@kernel
def _choose_within_quota(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int, kept: int
) -> int:
    """Check the chosen cards, each of which is within the quotas, against these together; return how many are kept.

    If they exceed the quotas, the first candidates that do not are taken instead, unless the way of choosing is strict.
    """
    wanted = request.claims.wanted[here.claim]
    if keep_within_quota(columns, request, scratch, here, wanted) == wanted:
        return wanted  # type: ignore[no-any-return]
    if is_strict(request.rules.selection[here.claim]):
        here.counts[reasons.QUOTA] += kept
        return 0
    choose_first(columns, request, scratch, here, found)
    kept = keep_within_quota(columns, request, scratch, here, found)
    if kept < wanted:
        here.counts[reasons.QUOTA] += found - kept
    return kept


@kernel
def book(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> None:
    """Add the chosen candidates to the usage of their cards and to the quota counters of the pod."""
    claim, candidates = here.claim, scratch.candidates
    for i in range(request.claims.wanted[claim]):
        number = scratch.chosen[i]
        device, piece = candidates.device[number], candidates.piece[number]
        used = here.used[device - here.base]
        if piece == NO_PIECE:
            used[SLOTS] += request.claims.amounts[claim, SLOTS]
            used[MEMORY] += candidates.memory[number]
            used[CORES] += candidates.cores[number]
        else:
            used += columns.pieces[piece]
            used[CORES] += candidates.cores[number] - columns.pieces[piece, CORES]
        scratch.picks[claim, i], scratch.pieces[claim, i] = device, piece
        if request.quota_left.shape[0] > 0:
            raise_peak(columns, scratch, here, device)
