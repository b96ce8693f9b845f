"""Choice of whole cards of one link zone: MetaX's device plugin numbers the zones of linked cards."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.first import choose_first
from vgpu_scheduler.kernels.columns import SLOTS, DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch, is_pick
from vgpu_scheduler.kernels.sentinels import NO_GROUP

_LINK, _BROKEN_LINK = 100, 10
"""Score of a link between two cards that are taken together, and penalty of a link to a card that is left."""


@kernel
def choose_zone(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take cards of the smallest zone with enough cards, the one tried first if tied; see :mod:`kernels.choose`.

    If no zone has enough, the first candidates are taken.
    """
    wanted, device = request.claims.wanted[here.claim], scratch.candidates.device
    zone, smallest = NO_GROUP, found + 1
    for one in range(found):
        members = 0
        for other in range(found):
            members += int(columns.group[device[other]] == columns.group[device[one]])
        if wanted <= members < smallest:
            zone, smallest = columns.group[device[one]], members
    if found <= wanted or smallest > found:
        return choose_first(columns, request, scratch, here, found)
    kept = 0
    for number in range(found):
        if columns.group[device[number]] == zone:
            scratch.chosen[kept] = number
            kept += 1
    return kept


@kernel
def score_zone(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> np.float32:
    """Return the score of the links among the cards of a claim, minus the penalty of links to cards that stay idle.

    Cards of one zone are linked; zone 0 stands for no zone.
    """
    score = 0
    cards = here.used.shape[0]
    for device in range(here.base, here.base + cards):
        for other in range(here.base, device):
            if not _are_linked(columns, request, here, device, other):
                continue
            one = is_pick(request, scratch, here.claim, device)
            two = is_pick(request, scratch, here.claim, other)
            if one and two:
                score += _LINK
            elif one or two:
                score -= _BROKEN_LINK
    return np.float32(score)


@kernel
def _are_linked(columns: DeviceColumns, request: Request, here: CardClaim, device: int, other: int) -> bool:
    """Tell whether two cards are in one zone, of the claim's vendor, and unused by other pods."""
    vendor = request.claims.vendor[here.claim]
    return (  # type: ignore[no-any-return]
        columns.group[device] > 0
        and columns.group[device] == columns.group[other]
        and columns.vendor[device] == vendor
        and columns.vendor[other] == vendor
        and columns.used[device, SLOTS] == 0
        and columns.used[other, SLOTS] == 0
    )
