"""How good a choice of cards is beside the load of its node: what HAMi adds to the node's score for some makers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.tables import (
    CHECK_WORTH,
    SELECT_WELCOME,
    SELECT_WINGS,
    SELECT_ZONE,
    DeviceColumns,
    Request,
    Scratch,
)
from vgpu_scheduler.kernels.tenants import welcome_of, worth_of_links
from vgpu_scheduler.kernels.wings import gain_of_wings


@kernel
def add_affinity(
    columns: DeviceColumns,
    request: Request,
    scratch: Scratch,
    claim: int,
    base: int,
    cards: int,
    affinity: NDArray[np.float32],
) -> None:
    """Add what the cards of a claim are worth, or those of all claims on a maker with its last one.

    Parameters
    ----------
    columns, request, scratch
        The device matrix, the pod, and its picks.
    claim
        A claim that has its cards.
    base, cards
        The number of the node's first card, and how many it has.
    affinity
        For policies that pack and that spread, shape (2,); more is better.
    """
    last = _is_last_of_maker(request, claim)
    if request.affinity[claim] > 0:
        affinity += request.affinity[claim] * _times(columns, request, scratch, claim, base, cards, last)
    if last and request.checks[claim] & CHECK_WORTH:
        affinity += _worth_of(columns, request, claim, base, cards)


@kernel
def _times(
    columns: DeviceColumns, request: Request, scratch: Scratch, claim: int, base: int, cards: int, last: bool
) -> np.float32:
    """Return how often the affinity of a claim counts, by how its cards are chosen."""
    picks = scratch.picks[claim, : request.wanted[claim]]
    selection = request.selection[claim]
    if selection == SELECT_WINGS:
        return gain_of_wings(columns, request, scratch, claim, base, cards) if last else np.float32(0.0)
    if selection == SELECT_WELCOME:
        return welcome_of(columns, picks)
    if selection == SELECT_ZONE:
        return worth_of_links(columns, request, scratch, claim, base, cards)
    return _share_of_largest_group(columns, picks)


@kernel
def _is_last_of_maker(request: Request, claim: int) -> bool:
    last = claim
    for other in range(claim + 1, request.vendor.shape[0]):
        if request.vendor[other] == request.vendor[claim]:
            last = other
    return last == claim


@kernel
def _share_of_largest_group(columns: DeviceColumns, picks: NDArray[np.int64]) -> np.float32:
    """Return the part of some cards that is of one group, the largest such part; 0 if any is in no group."""
    most = 0
    for i in range(picks.shape[0]):
        if columns.group[picks[i]] < 0:
            return np.float32(0.0)
        members = 0
        for j in range(picks.shape[0]):
            if columns.group[picks[j]] == columns.group[picks[i]]:
                members += 1
        most = max(most, members)
    return np.float32(most) / np.float32(picks.shape[0])


@kernel
def _worth_of(columns: DeviceColumns, request: Request, claim: int, base: int, cards: int) -> NDArray[np.float32]:
    """Return how good it is that the pod takes as many cards of a maker as it does, over all its containers."""
    number = 0
    for other in range(request.container.shape[0]):
        if request.vendor[other] == request.vendor[claim]:
            number += request.wanted[other]
    last = base
    for device in range(base, base + cards):
        if columns.vendor[device] == request.vendor[claim]:
            number -= 1
            last = device
            if number == 0:
                break
    return columns.worth[last, 2:] if number > 0 else columns.worth[last, :2]
