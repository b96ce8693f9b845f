"""Choice by scopes of a node's topology tree: the machine, its NUMA nodes, the switches below them (Koordinator)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import inlined_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.sentinels import NO_CARD

BY_SCORE = 0
"""The level of a claim whose cards are not chosen by the tree."""
MACHINE, NUMA_NODE, SWITCH = 1, 2, 3
"""The levels of scopes, the deepest last."""


class ScopeTerms(NamedTuple):
    """Which claims have their cards chosen by the topology tree."""

    level: NDArray[np.int64]  # (C,) the largest acceptable scope, or BY_SCORE
    whole: NDArray[np.bool_]  # (C,) the claim takes whole cards: those of the lowest indexes, regardless of score
    required: bool  # reject nodes where the place of some card is unknown


@kernel
def has_tree(columns: DeviceColumns, vendor: int, base: int, devices: int) -> bool:
    """Tell whether the places of all devices of a vendor on a node are known."""
    for device in range(base, base + devices):
        if columns.vendor[device] == vendor and columns.group[device] < 0:
            return False
    return True


@kernel
def _together(columns: DeviceColumns, level: int, one: int, other: int) -> bool:
    """Tell whether two devices are in the same scope of a level."""
    if level == MACHINE:
        return True
    near = columns.numa[one] == columns.numa[other]
    return near and (level == NUMA_NODE or columns.group[one] == columns.group[other])


@kernel
def is_shared(columns: DeviceColumns, base: int, position: int, used: NDArray[np.int64]) -> bool:
    """Tell whether the device at a position of a node is in use."""
    for dimension in range(used.shape[1]):
        if columns.total[base + position, dimension] > 0 and used[position, dimension] > 0:
            return True
    return False


@kernel
def _is_in_use(columns: DeviceColumns, level: int, device: int, base: int, used: NDArray[np.int64]) -> bool:
    """Tell whether a healthy card in the scope of a device is in use."""
    for position in range(used.shape[0]):
        other = base + position
        if columns.vendor[other] != columns.vendor[device] or not columns.healthy[other]:
            continue
        if _together(columns, level, device, other):
            for dimension in range(used.shape[1]):  # is_shared inlined, because a call costs more
                if columns.total[other, dimension] > 0 and used[position, dimension] > 0:
                    return True
    return False


@kernel
def _comes_first(columns: DeviceColumns, one: int, other: int) -> bool:
    """Tell whether the scope of a device comes before that of another, by NUMA node, then by switch."""
    if columns.numa[one] != columns.numa[other]:
        return columns.numa[one] < columns.numa[other]  # type: ignore[no-any-return]
    return columns.group[one] < columns.group[other]  # type: ignore[no-any-return]


@inlined_kernel
def _best_of_level(
    columns: DeviceColumns,
    level: int,
    wanted: int,
    base: int,
    used: NDArray[np.int64],
    score: NDArray[np.int64],
    out: NDArray[np.bool_],
) -> int:
    """Return the position of a card in the best scope of a level, or ``NO_CARD`` if none has enough cards.

    The best scope has the most scopes in use on its path from the root; ties go to the best card, then to the first.
    """
    best, most_in_use, best_score = NO_CARD, 0, 0
    for position in range(used.shape[0]):
        if out[position]:
            continue
        room, top = 0, score[position]
        for other in range(used.shape[0]):
            if not out[other] and _together(columns, level, base + position, base + other):
                room += 1
                top = max(top, score[other])
        if room < wanted:
            continue
        in_use = 0
        for above in range(MACHINE, level + 1):
            in_use += int(_is_in_use(columns, above, base + position, base, used))
        better = best == NO_CARD or in_use > most_in_use
        if not better and in_use == most_in_use:
            better = top > best_score
            if top == best_score:
                better = _comes_first(columns, base + position, base + best)
        if better:
            best, most_in_use, best_score = position, in_use, top
    return best


@inlined_kernel
def keep_scope(
    columns: DeviceColumns,
    highest: int,
    wanted: int,
    base: int,
    used: NDArray[np.int64],
    score: NDArray[np.int64],
    out: NDArray[np.bool_],
) -> bool:
    """Keep only the cards of the smallest scope with enough cards; return False if no acceptable scope has enough.

    Parameters
    ----------
    columns
        The device matrix.
    highest
        The level of the largest acceptable scope.
    wanted
        The number of devices of the claim.
    base
        Device number of the node's first device.
    used
        Usage of the node's devices, shape (devices, K).
    score
        Score of each device, shape (>= devices,).
    out
        Which devices are no candidates, shape (devices,); devices of other scopes are added.
    """
    for level in range(SWITCH, highest - 1, -1):
        best = _best_of_level(columns, level, wanted, base, used, score, out)
        if best != NO_CARD:
            for position in range(used.shape[0]):
                out[position] = out[position] or not _together(columns, level, base + best, base + position)
            return True
    return False
