"""Choice of whole modules of two cards: Ascend's super pods, where cards 0 and 1 are a module, 2 and 3 the next."""

from __future__ import annotations

from vgpu_scheduler.kernels import reasons
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.sentinels import COUNTED_AS_NONE, NO_CARD


@kernel
def choose_pairs(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take candidates of complete modules, in the order of the modules' first cards.

    As in HAMi, the message counts out of the number of wanted cards, and also reports 0. See :mod:`kernels.choose`.
    """
    device, left = scratch.candidates.device, scratch.spare
    for number in range(found):
        left[number] = device[number]
    kept = 0
    for one in range(found):
        if left[one] == NO_CARD:
            continue
        for other in range(one + 1, found):
            if left[other] != NO_CARD and columns.ordinal[left[other]] // 2 == columns.ordinal[left[one]] // 2:
                left[other] = NO_CARD
                scratch.chosen[kept], scratch.chosen[kept + 1] = one, other
                kept += 2
                break
    here.cards[0] = request.claims.wanted[here.claim]
    if kept == 0:
        here.counts[reasons.TOO_FEW] = COUNTED_AS_NONE
    return kept
