"""Scores for the choice of cards, which HAMi adds to the node's load score for some vendors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.dispatch import score_choice
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch, is_last_of_vendor


@kernel
def add_choice_score(
    columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, choice_score: NDArray[np.float32]
) -> None:
    """Add the score of a claim's chosen cards and, after the last claim on a vendor, the link score for their number.

    Parameters
    ----------
    columns, request, scratch
        The device matrix, the pod, and its picks.
    here
        A claim whose cards are chosen.
    choice_score
        Receives the scores for policies that pack and that spread, shape (2,); more is better.
    """
    if request.rules.choice_weight[here.claim] > 0:
        score = request.rules.choice_weight[here.claim] * score_choice(columns, request, scratch, here)
        for policy in range(2):
            choice_score[policy] += score
    if request.rules.link_score[here.claim] and is_last_of_vendor(request, here.claim):
        _add_link_score(columns, request, here, choice_score)


@kernel
def _add_link_score(
    columns: DeviceColumns, request: Request, here: CardClaim, choice_score: NDArray[np.float32]
) -> None:
    """Add the registered link score for the number of cards that the pod takes over all its containers."""
    vendor = request.claims.vendor[here.claim]
    number = 0
    for other in range(request.claims.container.shape[0]):
        if request.claims.vendor[other] == vendor:
            number += request.claims.wanted[other]
    last = here.base
    for device in range(here.base, here.base + here.used.shape[0]):
        if columns.vendor[device] == vendor:
            number -= 1
            last = device
            if number == 0:
                break
    for policy in range(2):
        choice_score[policy] += columns.link_score[last, policy + (2 if number > 0 else 0)]
