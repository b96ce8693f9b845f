"""Kunlunxin's servers: two wings of four cards, of which those with the same place are linked across.

The tables are HAMi's. Cards are taken of the wing that has fewest to spare, so that whole wings stay free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.tables import BARRED_BY_UUID, CHECK_IDLE, SLOTS, DeviceColumns, Request, Scratch
from vgpu_scheduler.model import CardReason

WING = 4
_LEFT, _RIGHT, _NEITHER = 0, 1, -1
_RANK_FOR_ONE = (4, 0, 2, 1, 3)
"""How well a wing suits where one card is asked for, by its number of free cards: 1, 3, 2, 4."""
_PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
"""Places in a wing of two cards that are taken with those across from them, the best first."""
_SCATTERED = (1, 2, 1, 1, 0)
"""How scattered the free cards of a wing are, by how many cards are in use."""
_GAIN = (3.0, 2.0, 1.0, 0.0)
"""What it is worth that the cards of a node are less scattered by one, as much as before, more by one, by two."""
_ELSE = 1.0
_UUID = int(CardReason.CardUuidMismatch)
_NUMA = int(CardReason.NumaNotFit)
_UNSAID = (
    int(CardReason.CardNotHealth),
    int(CardReason.CardTimeSlicingExhausted),
    int(CardReason.CardInsufficientMemory),
)
_IN_USE = int(CardReason.ExclusiveDeviceAllocateConflict)


@kernel
def keep_wings(
    columns: DeviceColumns, picks: NDArray[np.int64], picked: int, wanted: int, spare: NDArray[np.int64]
) -> int:
    """Keep 1, 2, 4 or 8 candidates: of one wing, else pairs that are linked across, or all cards there are.

    The candidates are taken from the last one on: HAMi's Fit for these cards walks the sorted list the other way
    round.

    Returns
    -------
    int
        How many are kept: ``wanted``, or 0 where none are good.
    """
    left = 0
    for i in range(picked):
        spare[i] = picks[picked - 1 - i]
        left += int(columns.ordinal[spare[i]] < WING)
    right = picked - left
    if wanted == 2 * WING:
        if left != WING or right != WING:
            return 0
        _take_wing(columns, picks, 0, WING, spare[:picked], _LEFT)
        _take_wing(columns, picks, WING, WING, spare[:picked], _RIGHT)
        return 2 * WING
    if wanted not in (1, 2, WING):
        return 0
    wing = _best_wing(left, right, wanted)
    if wing != _NEITHER:
        _take_wing(columns, picks, 0, wanted, spare[:picked], wing)
        return wanted
    return _take_linked(columns, picks, wanted, spare[:picked])


@kernel
def _best_wing(left: int, right: int, wanted: int) -> int:
    """Return the wing whose free cards suit best, of equals the left one; neither where both have too few."""
    if left < wanted and right < wanted:
        return _NEITHER
    if left < wanted:
        return _RIGHT
    if right < wanted:
        return _LEFT
    return _RIGHT if _rank(right, wanted) < _rank(left, wanted) else _LEFT


@kernel
def _rank(free: int, wanted: int) -> int:
    """Return how well so many free cards suit: the fewer the better, but an odd number for one card."""
    suited = min(free, WING)
    return _RANK_FOR_ONE[suited] if wanted == 1 else suited


@kernel
def _take_wing(
    columns: DeviceColumns, picks: NDArray[np.int64], start: int, number: int, free: NDArray[np.int64], wing: int
) -> None:
    """Write the first free cards of a wing from a place on."""
    taken = 0
    for device in free:
        if taken < number and (columns.ordinal[device] < WING) == (wing == _LEFT):
            picks[start + taken] = device
            taken += 1


@kernel
def _take_linked(columns: DeviceColumns, picks: NDArray[np.int64], wanted: int, free: NDArray[np.int64]) -> int:
    """Take cards that are linked across: a pair as the cards come, or the best two; return how many, 0 for none."""
    at = np.full(2 * WING, -1, dtype=np.int64)
    for device in free:
        if columns.ordinal[device] < 2 * WING:
            at[columns.ordinal[device]] = device
    if wanted == 2:
        for device in free:
            place = columns.ordinal[device]
            if place < 2 * WING and at[(place + WING) % (2 * WING)] >= 0:
                picks[0], picks[1] = device, at[(place + WING) % (2 * WING)]
                return wanted
    elif wanted == WING:
        for one, other in _PAIRS:
            if min(at[one], at[other], at[one + WING], at[other + WING]) >= 0:
                picks[0], picks[1] = at[one], at[other]
                picks[2], picks[3] = at[one + WING], at[other + WING]
                return wanted
    return 0


@kernel
def word_wings(columns: DeviceColumns, request: Request, claim: int, row: int, counts: NDArray[np.int16]) -> None:
    """Leave of the reasons those that HAMi gives for these cards; that none of the wings fits, where there are none.

    It looks at UUIDs before anything else.
    """
    for reason in _UNSAID:
        counts[reason] = 0
    counts[_UUID] = 0
    if request.device_barred.shape[0] > 0:
        for device in range(columns.first[row], columns.last[row]):
            if columns.vendor[device] == request.vendor[claim]:
                counts[_UUID] += int(request.device_barred[device] == BARRED_BY_UUID)
    if request.checks[claim] & CHECK_IDLE:
        counts[_IN_USE] = 0
    if counts.sum() == 0:
        counts[_NUMA] = 1


@kernel
def gain_of_wings(
    columns: DeviceColumns, request: Request, scratch: Scratch, claim: int, base: int, cards: int
) -> np.float32:
    """Return how good it is what the pod leaves free of a maker's cards, over all its containers."""
    before, after = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for device in range(base, base + cards):
        if columns.vendor[device] != request.vendor[claim]:
            continue
        wing = _LEFT if columns.ordinal[device] < WING else _RIGHT
        if columns.used[device, SLOTS] > 0:
            before[wing] += 1
            after[wing] += 1
        elif _is_taken(request, scratch, claim, device):
            after[wing] += 1
    more = _scattered(after) - _scattered(before)
    return np.float32(_GAIN[more + 1]) if -1 <= more <= 2 else np.float32(_ELSE)


@kernel
def _scattered(used: NDArray[np.int64]) -> int:
    empty = 1 if used[_LEFT] == 0 and used[_RIGHT] == 0 else 0
    return _SCATTERED[min(used[_LEFT], WING)] + _SCATTERED[min(used[_RIGHT], WING)] - empty


@kernel
def _is_taken(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether any container of the pod, up to this claim, got a card."""
    for other in range(claim + 1):
        if request.vendor[other] != request.vendor[claim]:
            continue
        for i in range(request.wanted[other]):
            if scratch.picks[other, i] == device:
                return True
    return False
