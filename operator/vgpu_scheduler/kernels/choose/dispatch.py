"""Dispatch over all ways of choosing: a new one is a file beside this one and a line in each ``if`` chain.

There are no function tables, because numba compiles calls through them badly.
"""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.choose.contention import choose_least_contended, score_contention
from vgpu_scheduler.kernels.choose.first import choose_first
from vgpu_scheduler.kernels.choose.grouped import choose_grouped, score_group
from vgpu_scheduler.kernels.choose.halves import choose_halves, score_halves
from vgpu_scheduler.kernels.choose.linked import choose_linked
from vgpu_scheduler.kernels.choose.pairs import choose_pairs
from vgpu_scheduler.kernels.choose.run import choose_run
from vgpu_scheduler.kernels.choose.zone import choose_zone, score_zone
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import CardClaim, Request, Scratch
from vgpu_scheduler.kernels.rules import Selection

_LINKED, _GROUPED, _PAIRS = int(Selection.LINKED), int(Selection.GROUPED), int(Selection.PAIRS)
_RUN, _HALVES = int(Selection.RUN), int(Selection.HALVES)
_CONTENTION, _ZONE = int(Selection.CONTENTION), int(Selection.ZONE)


@kernel
def choose(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim, found: int) -> int:
    """Choose among the candidates by the claim's selection; see :mod:`kernels.choose`."""
    selection = request.rules.selection[here.claim]
    if selection == _LINKED:
        kept = choose_linked(columns, request, scratch, here, found)
    elif selection == _GROUPED:
        kept = choose_grouped(columns, request, scratch, here, found)
    elif selection == _PAIRS:
        kept = choose_pairs(columns, request, scratch, here, found)
    elif selection == _RUN:
        kept = choose_run(columns, request, scratch, here, found)
    elif selection == _HALVES:
        kept = choose_halves(columns, request, scratch, here, found)
    elif selection == _CONTENTION:
        kept = choose_least_contended(columns, request, scratch, here, found)
    elif selection == _ZONE:
        kept = choose_zone(columns, request, scratch, here, found)
    else:
        kept = choose_first(columns, request, scratch, here, found)
    return kept


@kernel
def score_choice(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> np.float32:
    """Return the score of a claim's cards by the claim's selection."""
    selection = request.rules.selection[here.claim]
    if selection == _HALVES:
        return score_halves(columns, request, scratch, here)
    if selection == _CONTENTION:
        return score_contention(columns, request, scratch, here)
    if selection == _ZONE:
        return score_zone(columns, request, scratch, here)
    return score_group(columns, request, scratch, here)


@kernel
def is_strict(selection: int) -> bool:
    """Tell whether a selection forbids replacing chosen cards by others, because they belong together."""
    return selection in (_PAIRS, _RUN, _HALVES)
