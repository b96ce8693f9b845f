"""Choice of cards with the least contention for an online pod: MetaX's shares with an application class."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels.application_classes import contention
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch


@kernel
def choose_least_contended(
    columns: DeviceColumns, _request: Request, scratch: Scratch, _here: CardClaim, found: int
) -> int:
    """Sort the candidates, stably, by the contention of their occupants; see :mod:`kernels.choose`."""
    device, chosen = scratch.candidates.device, scratch.chosen
    for number in range(found):
        place = number
        while place > 0 and contention(columns, device[chosen[place - 1]]) > contention(columns, device[number]):
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = number
    return found


@kernel
def score_contention(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> np.float32:
    """Return the negated contention on the cards of a claim; 0 is best."""
    total = 0
    for i in range(request.claims.wanted[here.claim]):
        total += contention(columns, scratch.picks[here.claim, i])
    return np.float32(-total)
