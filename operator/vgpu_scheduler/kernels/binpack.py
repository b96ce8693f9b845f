"""Volcano's binpack: how full a node is after the pod, as a weighted mean over resources.

The formula is Volcano's. Amounts are added up as integers and divided once, in 64-bit floats, as Volcano does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import PodDemand
from vgpu_scheduler.model import ContainerKind

_INIT = int(ContainerKind.INIT)
_FULL = 100.0


class WeighedResources(NamedTuple):
    """Resources with a weight, ``R`` of them: each is counted on the node, or on its devices, or on neither."""

    weight: NDArray[np.float64]  # (R,)
    column: NDArray[np.int64]  # (R,) line of the node table, or NO_LINE
    asked: NDArray[np.int64]  # (R,) what the pod requests of it, in the unit of that line
    vendor: NDArray[np.int32]  # (R,) whose devices stand for it, or NO_VENDOR
    dimension: NDArray[np.int64]  # (R,) which amount of them
    percent: NDArray[np.bool_]  # (R,) counted in percent of each device instead of in the unit of the dimension


class _OnDevices(NamedTuple):
    """One resource as the devices of a node have it."""

    vendor: int  # whose devices
    dimension: int  # which amount of them
    percent: bool  # counted in percent of each device instead of in the unit of the dimension
    total: int  # over all of them
    cards: int  # how many there are


@kernel
def _per_device(demand: PodDemand, claim: int, resource: _OnDevices) -> int:
    """Return what one device of a claim takes.

    Amounts become percent, and percent amounts, by the average card: which one it will be is not known yet.
    """
    total, cards = resource.total, resource.cards
    amount: int = demand.amounts[claim, resource.dimension]
    percent: int = demand.percent[claim, resource.dimension]
    if resource.percent:
        if amount > 0:
            return amount * 100 * cards // total if total > 0 else amount
        return percent
    if amount > 0:
        return amount
    return total * percent // (100 * cards) if cards > 0 else percent


@kernel
def _peak(demand: PodDemand, resource: _OnDevices) -> int:
    """Return the most that the pod takes at any time: the init containers one by one, or all others together."""
    most = 0
    running = 0
    own = 0
    for claim in range(demand.container.shape[0]):
        if claim == 0 or demand.container[claim] != demand.container[claim - 1]:
            own = 0
        if demand.vendor[claim] != resource.vendor:
            continue
        amount = demand.wanted[claim] * _per_device(demand, claim, resource)
        own += amount
        if demand.kind[claim] == _INIT:
            most = max(most, running + own)
        else:
            running += amount
            most = max(most, running)
    return most


@kernel
def _on_devices(
    columns: DeviceColumns, demand: PodDemand, row: int, resources: WeighedResources, r: int
) -> tuple[int, int, int]:
    """Return capacity, usage and the pod's request of resource ``r`` over the devices of a node that stand for it."""
    vendor, dimension = resources.vendor[r], resources.dimension[r]
    total = 0
    used = 0
    share = 0
    cards = 0
    for device in range(columns.first[row], columns.last[row]):
        if columns.vendor[device] != vendor:
            continue
        cards += 1
        total += columns.total[device, dimension]
        used += columns.used[device, dimension]
        if columns.total[device, dimension] > 0:
            share += columns.used[device, dimension] * 100 // columns.total[device, dimension]
    asked = _peak(demand, _OnDevices(vendor, dimension, resources.percent[r], total, cards))
    if resources.percent[r]:
        return (100 * cards if total > 0 else 0), share, asked
    return total, used, asked


@entry_kernel
def binpack_nodes(
    allocatable: NDArray[np.int64],
    used: NDArray[np.int64],
    columns: DeviceColumns,
    resources: WeighedResources,
    demand: PodDemand,
    rows: NDArray[np.int64],
    score: NDArray[np.float64],
) -> None:
    """Score nodes for a pod by Volcano's binpack, 0 to 100, without the global weight.

    Parameters
    ----------
    allocatable, used
        The node table, one line per resource, shape (resources, N); cpu in milli, all else in whole units.
    columns
        The device matrix.
    resources
        The weighted resources. One that a node offers is counted there, else on the node's devices if they stand for
        it, else the node has none of it.
    demand
        What the pod claims of devices.
    rows
        Node rows, shape (n,).
    score
        Receives the scores, shape (n,).
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        total = 0.0
        weights = 0.0
        for r in range(resources.weight.shape[0]):
            column = resources.column[r]
            capacity = allocatable[column, row] if column >= 0 else 0
            asked = resources.asked[r]
            taken = used[column, row] if column >= 0 else 0
            if capacity == 0 and resources.vendor[r] >= 0:
                capacity, taken, asked = _on_devices(columns, demand, row, resources, r)
            if asked == 0:
                continue
            weight = resources.weight[r]
            weights += weight
            if capacity == 0 or weight == 0.0:  # before the test of the overflow
                continue
            if asked > capacity - taken:
                total = 0.0
                break
            total += (taken + asked) * weight / capacity
        score[i] = _FULL * total / weights if weights > 0.0 else 0.0
