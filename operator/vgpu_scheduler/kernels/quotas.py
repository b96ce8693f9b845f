"""Namespace quotas within Fit: compares what a pod would hold of a vendor's cards in total with the quota left.

As in the ledger, a pod holds on each card the larger of its peak while init containers run and the sum of the other
containers; per vendor it holds the sum over the cards. So a pick costs only what it adds to the peak of its card: an
init container costs nothing on a card of which an app container later takes more.

Cards that are chosen by links are first checked one by one. If the chosen cards together exceed the quota, the first
cards in try order that stay within it are taken instead, because links are only a preference.
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
    """Return the amount that quotas count for what the pod holds of a card."""
    total = columns.total[device, CORES]
    if amount == QUOTA_CORES and request.rules.checks[claim] & _UNITS and total > 0:
        return -(-held * WHOLE // total)  # type: ignore[no-any-return]
    return held


@kernel
def open_claim(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> None:
    """Initialise the quota counters of a claim from the pod's earlier claims on the vendor."""
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
    """Initialise the quota counters of a card with what the pod already holds of it."""
    used = here.used[device - here.base]
    scratch.quota[HELD, QUOTA_MEMORY] = used[MEMORY] - columns.used[device, MEMORY]
    scratch.quota[HELD, QUOTA_CORES] = used[CORES] - columns.used[device, CORES]


@kernel
def is_within_quota(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, offer: Offer) -> bool:
    """Tell whether the pod stays within its quotas if it takes an offer of the opened card."""
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
    """Count the offer that :func:`is_within_quota` just accepted as picked."""
    for amount in range(2):
        scratch.quota[HELD, amount] += scratch.quota[MORE, amount]
        scratch.quota[SPENT, amount] += scratch.quota[GROWTH, amount]


@kernel
def keep_within_quota(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, number: int) -> int:
    """Keep the wanted number of the first ``number`` chosen candidates that together stay within the quotas.

    They are moved to the front of ``scratch.chosen``, where pieces of one card are contiguous; after one piece of a
    card is dropped, no later one of it is kept.

    Returns
    -------
    int
        The number of kept candidates.
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
    """Update the pod's peak on a card after a pick was booked."""
    open_card(columns, scratch, here, device)
    peak = scratch.quota[PEAK + device - here.base]
    for amount in range(2):
        peak[amount] = max(peak[amount], scratch.quota[HELD, amount])
