"""Joint choice of devices of several kinds below the same switches: the first kind determines the switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import kernel
from vgpu_scheduler.kernels.columns import DeviceColumns

_A_TURN = 1000
"""Larger than any difference between device scores."""


class JointTerms(NamedTuple):
    """Which claims follow the devices of another claim, and how strictly."""

    order: NDArray[np.int64]  # (C,) the claims in the order in which they are served
    first: int  # the claim that determines the switches; arbitrary if no claim follows
    follows: NDArray[np.bool_]  # (C,)
    one_each: NDArray[np.bool_]  # (C,) takes one device per switch if there are enough
    same: bool  # the switches must be the same, with a device for each


@kernel
def switches(columns: DeviceColumns, picks: NDArray[np.int64]) -> int:
    """Count the switches above some picks; picks with an unknown switch do not count."""
    count = 0
    for i in range(picks.shape[0]):
        group = columns.group[picks[i]]
        new = group >= 0
        for j in range(i):
            new = new and columns.group[picks[j]] != group
        count += int(new)
    return count


@kernel
def is_below_one_of(columns: DeviceColumns, device: int, picks: NDArray[np.int64]) -> bool:
    """Tell whether a device is below the switch of one of the picks."""
    found = False
    for i in range(picks.shape[0]):
        found = found or (columns.group[device] >= 0 and columns.group[picks[i]] == columns.group[device])
    return found


@kernel
def are_same_switches(columns: DeviceColumns, picks: NDArray[np.int64], others: NDArray[np.int64]) -> bool:
    """Tell whether two sets of picks are below the same switches."""
    same = True
    for i in range(picks.shape[0]):
        same = same and (columns.group[picks[i]] < 0 or is_below_one_of(columns, picks[i], others))
    for i in range(others.shape[0]):
        same = same and (columns.group[others[i]] < 0 or is_below_one_of(columns, others[i], picks))
    return same


@kernel
def take_turns(
    columns: DeviceColumns,
    base: int,
    picks: NDArray[np.int64],
    fitting: NDArray[np.bool_],
    turn: NDArray[np.int64],
    score: NDArray[np.int64],
) -> None:
    """Lower scores so that the best device of each switch comes first, then the second best, then those elsewhere.

    Parameters
    ----------
    columns, base
        The device matrix, and the number of the node's first device.
    picks
        The devices whose switches are preferred.
    fitting
        Which devices of the node may be taken, shape (M,).
    turn
        Work space, shape (>= M,).
    score
        Score of each device, shape (>= M,); changed.
    """
    devices = fitting.shape[0]
    for position in range(devices):
        turn[position] = devices
        if not fitting[position] or not is_below_one_of(columns, base + position, picks):
            continue
        turn[position] = 0
        for other in range(devices):
            if fitting[other] and columns.group[base + other] == columns.group[base + position]:
                better = score[other] > score[position]
                if score[other] == score[position]:
                    better = columns.ordinal[base + other] < columns.ordinal[base + position]
                turn[position] += int(better)
    for position in range(devices):
        score[position] -= _A_TURN * turn[position]
