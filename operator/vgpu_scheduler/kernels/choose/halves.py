"""Choice for Kunlunxin's servers: two halves of four cards; cards at the same position are linked across.

The tables are HAMi's. Cards are taken from the half with the fewest free cards, so that whole halves stay free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.arrays import count_of
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import SLOTS, DeviceColumns
from vgpu_scheduler.kernels.request import BARRED_BY_UUID, CardClaim, Request, Scratch, is_last_of_vendor, is_pick
from vgpu_scheduler.kernels.rules import Check
from vgpu_scheduler.kernels.sentinels import NO_CARD

_HALF = 4
_SERVER = 2 * _HALF
_LEFT, _RIGHT, _NEITHER = 0, 1, -1
_IDLE = int(Check.IDLE)
_RANK_FOR_ONE = (4, 0, 2, 1, 3)
"""Rank of a half for one card, by its number of free cards; the order of preference is 1, 3, 2, 4."""
_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
"""Positions in a half of two cards that are taken with their linked cards in the other half, the best first."""
_FRAGMENTS = (1, 2, 1, 1, 0)
"""Number of fragments of the free cards of a half, by its number of cards in use."""
_SCORES = (3.0, 2.0, 1.0, 0.0)
"""The score of a choice that leaves one fragment fewer, as many, one more, two more."""
_OTHER_SCORE = 1.0
_NOT_TOLD = (
    reasons.NOT_HEALTHY,
    reasons.EXHAUSTED,
    reasons.TOO_LITTLE_MEMORY,
)


@kernel
def choose_halves(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take 1, 2, 4 or 8 cards: from one half, else linked across the halves, or all; see :mod:`kernels.choose`.

    The candidates are taken in reverse, because HAMi's Fit for these cards walks the sorted list in reverse.
    """
    wanted, free = request.claims.wanted[here.claim], scratch.spare[:found]
    on_left = 0
    for i in range(found):
        free[i] = found - 1 - i
        on_left += int(columns.ordinal[scratch.candidates.device[i]] < _HALF)
    kept = 0
    if wanted == _SERVER and on_left == _HALF and found == _SERVER:
        _take_half(columns, scratch, _LEFT, scratch.chosen[:_HALF], free)
        _take_half(columns, scratch, _RIGHT, scratch.chosen[_HALF:_SERVER], free)
        kept = wanted
    elif wanted in (1, 2, _HALF):
        half = _best_half(on_left, found - on_left, wanted)
        if half != _NEITHER:
            _take_half(columns, scratch, half, scratch.chosen[:wanted], free)
            kept = wanted
        else:
            kept = _take_across(columns, scratch, wanted, free)
    if kept == 0:
        _tell_why(columns, request, here)
    return kept


@kernel
def _best_half(left: int, right: int, wanted: int) -> int:
    """Return the half whose free cards suit best, the left one if tied; neither if both have too few."""
    if left < wanted and right < wanted:
        return _NEITHER
    if left < wanted:
        return _RIGHT
    if right < wanted:
        return _LEFT
    return _RIGHT if _rank(right, wanted) < _rank(left, wanted) else _LEFT


@kernel
def _rank(free: int, wanted: int) -> int:
    """Return the rank of a number of free cards: fewer are better; for one card an odd number is."""
    suited = min(free, _HALF)
    return _RANK_FOR_ONE[suited] if wanted == 1 else suited


@kernel
def _take_half(
    columns: DeviceColumns, scratch: Scratch, half: int, chosen: NDArray[np.int64], free: NDArray[np.int64]
) -> None:
    """Write the first free cards of a half."""
    taken = 0
    for number in free:
        ordinal = columns.ordinal[scratch.candidates.device[number]]
        if taken < chosen.shape[0] and (ordinal < _HALF) == (half == _LEFT):
            chosen[taken] = number
            taken += 1


@kernel
def _take_across(columns: DeviceColumns, scratch: Scratch, wanted: int, free: NDArray[np.int64]) -> int:
    """Take cards that are linked across: the first pair, or the best two pairs; return how many, 0 for none."""
    chosen = scratch.chosen
    if wanted == 2:
        for number in free:
            place = columns.ordinal[scratch.candidates.device[number]]
            across = _number_at(columns, scratch, (place + _HALF) % _SERVER, free)
            if place < _SERVER and across != NO_CARD:
                chosen[0], chosen[1] = number, across
                return wanted
    elif wanted == _HALF:
        for one, other in _PAIRS:
            for i, place in enumerate((one, other, one + _HALF, other + _HALF)):
                chosen[i] = _number_at(columns, scratch, place, free)
            if count_of(chosen[:_HALF], NO_CARD) == 0:
                return wanted
    return 0


@kernel
def _number_at(columns: DeviceColumns, scratch: Scratch, place: int, free: NDArray[np.int64]) -> int:
    """Return the free card at a position in the server, or ``NO_CARD``."""
    found = NO_CARD
    for number in free:
        found = number if columns.ordinal[scratch.candidates.device[number]] == place else found
    return found


@kernel
def _tell_why(columns: DeviceColumns, request: Request, here: CardClaim) -> None:
    """Keep only the reasons that HAMi reports for these cards; without any, report that no half fits.

    HAMi checks UUIDs first for these cards.
    """
    counts = here.counts
    for reason in _NOT_TOLD:
        counts[reason] = 0
    counts[reasons.OTHER_UUID] = 0
    if request.cards.barred.shape[0] > 0:
        for device in range(here.base, here.base + here.used.shape[0]):
            if columns.vendor[device] == request.claims.vendor[here.claim]:
                counts[reasons.OTHER_UUID] += int(request.cards.barred[device] == BARRED_BY_UUID)
    if request.rules.checks[here.claim] & _IDLE:
        counts[reasons.IN_USE] = 0
    if count_of(counts, 0) == counts.shape[0]:
        counts[reasons.OTHER_NUMA] = 1


@kernel
def score_halves(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> np.float32:
    """Score, at the pod's last claim on a vendor, the fragmentation of the cards that it leaves free."""
    if not is_last_of_vendor(request, here.claim):
        return np.float32(0.0)
    left_before = right_before = left_after = right_after = 0
    for device in range(here.base, here.base + here.used.shape[0]):
        if columns.vendor[device] == request.claims.vendor[here.claim]:
            before = int(columns.used[device, SLOTS] > 0)
            after = int(before > 0 or _is_taken(request, scratch, here.claim, device))
            if columns.ordinal[device] < _HALF:
                left_before, left_after = left_before + before, left_after + after
            else:
                right_before, right_after = right_before + before, right_after + after
    more = _fragments(left_after, right_after) - _fragments(left_before, right_before)
    return np.float32(_SCORES[more + 1]) if -1 <= more <= 2 else np.float32(_OTHER_SCORE)


@kernel
def _fragments(left: int, right: int) -> int:
    """Return the number of fragments of the free cards, by the number of cards in use in each half."""
    empty = 1 if left == 0 and right == 0 else 0
    return _FRAGMENTS[min(left, _HALF)] + _FRAGMENTS[min(right, _HALF)] - empty


@kernel
def _is_taken(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether this claim or an earlier one of the pod got a card."""
    for other in range(claim + 1):
        if request.claims.vendor[other] == request.claims.vendor[claim] and is_pick(request, scratch, other, device):
            return True
    return False
