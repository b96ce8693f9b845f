"""Volcano's binpack score: how full a node is with the pod, as a weighted mean over resources.

As in Volcano, amounts are summed as integers and divided once, in 64-bit floats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import PodDemand
from vgpu_scheduler.model import ContainerType

_INIT = int(ContainerType.INIT)
_FULL = 100.0


class WeighedResources(NamedTuple):
    """``R`` resources with weights; each is counted on the node, on its devices, or not at all."""

    weight: NDArray[np.float64]  # (R,)
    column: NDArray[np.int64]  # (R,) line of the node table, or NO_LINE
    asked: NDArray[np.int64]  # (R,) the pod's request, in the unit of that line
    vendor: NDArray[np.int32]  # (R,) vendor of the devices that provide it, or NO_VENDOR
    dimension: NDArray[np.int64]  # (R,) dimension of these devices
    percent: NDArray[np.bool_]  # (R,) counted in percent of each device instead of in the unit of the dimension


class _OnDevices(NamedTuple):
    """One resource of the devices of a node."""

    vendor: int  # vendor of the devices
    dimension: int  # dimension of the devices
    percent: bool  # counted in percent of each device instead of in the unit of the dimension
    total: int  # over all devices
    cards: int  # number of devices


@kernel
def _per_device(demand: PodDemand, claim: int, resource: _OnDevices) -> int:
    """Return the amount that one device of a claim takes.

    Amounts and percentages are converted by the average card, because the card is not chosen yet.
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
    """Return the peak request of the pod: init containers one by one, or all other containers together."""
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
    """Return capacity, usage and the pod's request of resource ``r`` over the devices of a node that provide it."""
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
        The weighted resources. A resource is counted on the node if the node offers it, else on the devices that
        provide it, else the node has none of it.
    demand
        The device claims of the pod.
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
            if capacity == 0 or weight == 0.0:  # skipped before the check for overflow, as in Volcano
                continue
            if asked > capacity - taken:
                total = 0.0
                break
            total += (taken + asked) * weight / capacity
        score[i] = _FULL * total / weights if weights > 0.0 else 0.0
