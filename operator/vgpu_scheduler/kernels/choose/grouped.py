"""Choice of cards from as few groups as possible: one network (Ascend), or parts of one card (Vastai)."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.first import choose_first
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.sentinels import NO_GROUP

_TAKEN, _LEFT = 1, 0


@kernel
def choose_grouped(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take the candidates of the largest group first, then those of the next one; see :mod:`kernels.choose`.

    Ties go to the group whose first candidate comes first.
    """
    if found <= request.claims.wanted[here.claim]:
        return choose_first(columns, request, scratch, here, found)
    device, state = scratch.candidates.device, scratch.spare
    state[:found] = _LEFT
    written = 0
    while written < found:
        group = _largest_group(columns, scratch, found)
        for number in range(found):
            if state[number] == _LEFT and columns.group[device[number]] == group:
                state[number] = _TAKEN
                scratch.chosen[written] = number
                written += 1
    return found


@kernel
def _largest_group(columns: DeviceColumns, scratch: Scratch, found: int) -> int:
    """Return the group with the most remaining candidates."""
    device, state = scratch.candidates.device, scratch.spare
    largest, most = NO_GROUP, 0
    for number in range(found):
        if state[number] != _LEFT:
            continue
        members = 0
        for other in range(found):
            if state[other] == _LEFT and columns.group[device[other]] == columns.group[device[number]]:
                members += 1
        if members > most:
            largest, most = columns.group[device[number]], members
    return largest


@kernel
def score_group(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> np.float32:
    """Return the largest fraction of a claim's cards in one group; 0 if any card is in no group."""
    wanted, picks = request.claims.wanted[here.claim], scratch.picks[here.claim]
    most = 0
    for i in range(wanted):
        if columns.group[picks[i]] < 0:
            return np.float32(0.0)
        members = 0
        for j in range(wanted):
            if columns.group[picks[j]] == columns.group[picks[i]]:
                members += 1
        most = max(most, members)
    return np.float32(most) / np.float32(wanted)
