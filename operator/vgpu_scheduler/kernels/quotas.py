"""Namespace quotas within Fit: what a pod would hold of a vendor's cards in all, against what is left for it.

A pod holds of each card the larger of its peak while init containers run and of the sum of the others, as the ledger
books it, and of a vendor the sum over the cards. So a pick costs what it raises the peak of its card by: an init
container on a card that an app container has more of later costs nothing twice.

Cards that are chosen by their links are checked one by one first. If those chosen are too much together, they are
given up for the first ones of the walk that are not: links are a preference.
"""

from __future__ import annotations

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import CORES, MEMORY, DeviceColumns
from vgpu_scheduler.kernels.request import (
    GROWTH,
    HELD,
    MORE,
    PEAK,
    QUOTA_CORES,
    QUOTA_MEMORY,
    SPENT,
    WHOLE,
    CardClaim,
    Offer,
    Request,
    Scratch,
)
from vgpu_scheduler.kernels.rules import Check
from vgpu_scheduler.kernels.sentinels import NO_CARD

_UNITS = int(Check.UNITS)


@kernel
def _counted(columns: DeviceColumns, request: Request, claim: int, device: int, amount: int, held: int) -> int:
    """Return what quotas count of an amount that the pod holds of a card."""
    total = columns.total[device, CORES]
    if amount == QUOTA_CORES and request.rules.checks[claim] & _UNITS and total > 0:
        return -(-held * WHOLE // total)  # type: ignore[no-any-return]
    return held


@kernel
def open_claim(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> None:
    """Begin with nothing picked: what the pod holds of the claim's vendor from its claims before this one."""
    quota = scratch.quota
    quota[SPENT] = 0
    for position in range(here.used.shape[0]):
        device = here.base + position
        if columns.vendor[device] == request.claims.vendor[here.claim]:
            for amount in range(2):
                peak = quota[PEAK + position, amount]
                quota[SPENT, amount] += _counted(columns, request, here.claim, device, amount, peak)


@kernel
def open_card(columns: DeviceColumns, scratch: Scratch, here: CardClaim, device: int) -> None:
    """Begin with what the pod holds of a card already."""
    used = here.used[device - here.base]
    scratch.quota[HELD, QUOTA_MEMORY] = used[MEMORY] - columns.used[device, MEMORY]
    scratch.quota[HELD, QUOTA_CORES] = used[CORES] - columns.used[device, CORES]


@kernel
def is_within_quota(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, offer: Offer) -> bool:
    """Tell whether the pod stays within its quotas if it takes what the open card would give."""
    quota, claim, device = scratch.quota, here.claim, offer.device
    quota[MORE, QUOTA_MEMORY], quota[MORE, QUOTA_CORES] = offer.memory, offer.cores
    for amount in range(2):
        peak, held = quota[PEAK + device - here.base, amount], quota[HELD, amount]
        before = _counted(columns, request, claim, device, amount, max(peak, held))
        after = _counted(columns, request, claim, device, amount, max(peak, held + quota[MORE, amount]))
        if quota[SPENT, amount] + after - before > request.quota_left[claim, amount]:
            return False
        quota[GROWTH, amount] = after - before
    return True


@kernel
def count_pick(scratch: Scratch) -> None:
    """Count as picked what was just found to be within the quotas."""
    for amount in range(2):
        scratch.quota[HELD, amount] += scratch.quota[MORE, amount]
        scratch.quota[SPENT, amount] += scratch.quota[GROWTH, amount]


@kernel
def keep_within_quota(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, number: int) -> int:
    """Keep, of the first ``number`` chosen candidates, as many as are wanted and stay within the quotas together.

    They are moved to the front of ``scratch.chosen``. Pieces of one card are beside each other there; none is kept
    after one that is not.

    Returns
    -------
    int
        How many are kept.
    """
    chosen, candidates = scratch.chosen, scratch.candidates
    kept, last, exhausted = 0, NO_CARD, NO_CARD
    open_claim(columns, request, scratch, here)
    for i in range(number):
        candidate = chosen[i]
        device = candidates.device[candidate]
        if device != last:
            last = device
            open_card(columns, scratch, here, device)
        offer = Offer(device, candidates.piece[candidate], candidates.memory[candidate], candidates.cores[candidate])
        if device == exhausted or not is_within_quota(columns, request, scratch, here, offer):
            exhausted = device
            continue
        count_pick(scratch)
        chosen[kept] = candidate
        kept += 1
        if kept == request.claims.wanted[here.claim]:
            break
    return kept


@kernel
def raise_peak(columns: DeviceColumns, scratch: Scratch, here: CardClaim, device: int) -> None:
    """Note what the pod holds of a card after a pick was booked."""
    open_card(columns, scratch, here, device)
    peak = scratch.quota[PEAK + device - here.base]
    for amount in range(2):
        peak[amount] = max(peak[amount], scratch.quota[HELD, amount])
