"""How makers choose several cards among those that pass, where the first ones are not good enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.tables import SLOTS, DeviceColumns, Request, Scratch
from vgpu_scheduler.model import ContainerKind

NONE_OF_THEM = -1
"""Counts that are worth saying although they are 0."""
_INIT = int(ContainerKind.INIT)
_LINKED = (4, 8, 16)


@kernel
def is_group_used(columns: DeviceColumns, base: int, position: int, used: NDArray[np.int64]) -> bool:
    """Tell whether anybody uses a card of the same group of a node."""
    group = columns.group[base + position]
    if group < 0:
        return False
    for other in range(used.shape[0]):
        if (
            columns.group[base + other] == group
            and columns.vendor[base + other] == columns.vendor[base + position]
            and used[other, SLOTS] > 0
        ):
            return True
    return False


@kernel
def is_elsewhere(request: Request, scratch: Scratch, claim: int, device: int) -> bool:
    """Tell whether a container that runs beside this one got another card of the maker."""
    for other in range(claim):
        if request.vendor[other] != request.vendor[claim] or request.kind[other] == _INIT:
            continue
        for i in range(request.wanted[other]):
            if scratch.picks[other, i] != device:
                return True
    return False


@kernel
def gather_groups(columns: DeviceColumns, picks: NDArray[np.int64], picked: int, spare: NDArray[np.int64]) -> None:
    """Put the candidates of the largest group first, then those of the next; each group in the order it has.

    Of groups with equally many candidates the one comes first whose first candidate does.
    """
    spare[:picked] = picks[:picked]
    written = 0
    while written < picked:
        best = -1
        most = 0
        for i in range(picked):
            if spare[i] < 0:
                continue
            members = 0
            for j in range(picked):
                if spare[j] >= 0 and columns.group[spare[j]] == columns.group[spare[i]]:
                    members += 1
            if members > most:
                best, most = columns.group[spare[i]], members
        for i in range(picked):
            if spare[i] >= 0 and columns.group[spare[i]] == best:
                picks[written] = spare[i]
                spare[i] = -1
                written += 1


@kernel
def keep_pairs(columns: DeviceColumns, picks: NDArray[np.int64], picked: int, spare: NDArray[np.int64]) -> int:
    """Keep the candidates whose module is complete; the modules in the order of their first cards.

    Cards 0 and 1 of a node are a module, 2 and 3 the next.

    Returns
    -------
    int
        How many are kept.
    """
    spare[:picked] = picks[:picked]
    written = 0
    for i in range(picked):
        if spare[i] < 0:
            continue
        for j in range(i + 1, picked):
            if spare[j] >= 0 and columns.ordinal[spare[j]] // 2 == columns.ordinal[spare[i]] // 2:
                picks[written] = spare[i]
                picks[written + 1] = spare[j]
                spare[j] = -1
                written += 2
                break
    return written


@kernel
def keep_run(
    columns: DeviceColumns, picks: NDArray[np.int64], picked: int, wanted: int, spare: NDArray[np.int64]
) -> int:
    """Keep the first run of candidates whose numbers on the node follow each other.

    Where the cards are a group, all of them are in one row and a run may begin anywhere. Others are linked in fours,
    eights and sixteens: a run is one of these.

    Returns
    -------
    int
        How many are kept: ``wanted``, or 0 where there is no such run.
    """
    anywhere = picked > 0 and columns.group[picks[0]] >= 0
    if picked < wanted or not (anywhere or wanted in _LINKED):
        return 0
    spare[:] = -1
    for i in range(picked):
        if 0 <= columns.ordinal[picks[i]] < spare.shape[0]:
            spare[columns.ordinal[picks[i]]] = picks[i]
    for start in range(0, spare.shape[0] - wanted + 1, 1 if anywhere else wanted):
        complete = True
        for number in range(start, start + wanted):
            complete = complete and spare[number] >= 0
        if complete:
            picks[:wanted] = spare[start : start + wanted]
            return wanted
    return 0
