"""HAMi's ``topology-aware`` choice by the sum of pair scores; the search is in :mod:`kernels.topology`."""

from __future__ import annotations

from vgpu_scheduler.kernels.arrays import copy
from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.first import choose_first
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.topology import best_linked


@kernel
def choose_linked(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Take the best-linked cards, or the least-linked card if one is wanted; see :mod:`kernels.choose`."""
    wanted = request.claims.wanted[here.claim]
    if found <= wanted:
        return choose_first(columns, request, scratch, here, found)
    device, picks = scratch.candidates.device, scratch.spare
    copy(device[:found], picks)
    best_linked(columns, here.row, picks, found, wanted, scratch.links)
    number = 0
    for i in range(wanted):  # picks are in try order; the first pieces of a card are taken
        while device[number] != picks[i]:
            number += 1
        scratch.chosen[i] = number
        number += 1
    return wanted  # type: ignore[no-any-return]
