"""What the pods on a card cost at least that have to end for a pod that takes one card, for all nodes in one call.

Compared are amounts alone: what a card has, what is in use, and what the pod must have free there. Whatever else a fit
asks makes the pods cost more, never less. So nodes can be tried in this order, until the next one costs at least what
has been found. Costs are those of kube-scheduler, in its order: the highest priority, the sum of the priorities (each
above the lowest that there is), how many pods, and how late the oldest of the highest priority began.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import DeviceColumns
from vgpu_scheduler.kernels.request import asked_of
from vgpu_scheduler.kernels.sentinels import LOWEST_PRIORITY, NO_PRIORITY

MOST_SETS = 12
"""Up to how many pods on a card all sets of them are compared; of more pods the cost of one alone is the bound."""


class Occupants(NamedTuple):
    """What pods hold of devices, an entry for each pod and device: ``E`` of them.

    The entries of node row ``r`` are ``first[r] : last[r]``, by device; those of a device by priority, then by start.
    """

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    position: NDArray[np.int64]  # (E,) of the device on its node
    priority: NDArray[np.int64]  # (E,) of who would have to end; NEVER_BELOW for who costs nothing
    start: NDArray[np.float64]  # (E,) seconds since 1970; infinite for a pod that has not begun
    amounts: NDArray[np.int64]  # (E, K)
    costless: NDArray[np.int64]  # (E,) the priority of who ends already, or waits to be bound; else NEVER_BELOW


class CardAsk(NamedTuple):
    """A pod that takes one card."""

    priority: int  # only pods of a lower one end for it
    amounts: NDArray[np.int64]  # (K,) what it must have free of the card; 0 where ``percent`` says it, or nothing is
    percent: NDArray[np.int64]  # (K,) percent of what the card has
    may_use: NDArray[np.bool_]  # (D,) which devices it may have


class EvictionCosts(NamedTuple):
    """What the pods of a node cost at least; written at the rows that are asked about."""

    highest: NDArray[np.int64]  # (N,) NO_PRIORITY where no pod's end would do
    total: NDArray[np.int64]  # (N,)
    pods: NDArray[np.int64]  # (N,) how many
    start: NDArray[np.float64]  # (N,) the later, the cheaper


class SetScratch(NamedTuple):
    """Work space for the sets of pods on one card."""

    amounts: NDArray[np.int64]  # (2**MOST_SETS, K) what each set holds
    total: NDArray[np.int64]  # (2**MOST_SETS,)


class _Card(NamedTuple):
    """A device of a node, and the entries of the pods on it that may end: ``begin : end``."""

    row: int
    device: int
    begin: int
    end: int


@entry_kernel
def cheapest_at_least(
    columns: DeviceColumns,
    occupants: Occupants,
    ask: CardAsk,
    rows: NDArray[np.int64],
    scratch: SetScratch,
    into: EvictionCosts,
) -> None:
    """Write what the pods of each node cost at least that would have to end.

    Parameters
    ----------
    columns, occupants, ask
        The device matrix; who holds what of it; the pod.
    rows
        Node rows, shape (n,).
    scratch
        Work space.
    into
        Written at each row of ``rows``.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        into.highest[row] = NO_PRIORITY
        entry = occupants.first[row]
        while entry < occupants.last[row]:
            begin, end = entry, entry + 1
            while end < occupants.last[row] and occupants.position[end] == occupants.position[entry]:
                end += 1
            while begin < end and occupants.priority[begin] >= ask.priority:
                begin += 1
            card = _Card(row, columns.first[row] + occupants.position[entry], begin, end)
            if begin < end and ask.may_use[card.device] and _does(columns, occupants, ask, card):
                _compare(columns, occupants, ask, card, scratch, into)
            entry = end


@entry_kernel
def subtract_costless(rows: NDArray[np.int64], occupants: Occupants, ask: CardAsk, columns: DeviceColumns) -> None:
    """Take what pods of lower priority hold whose end costs nothing off what is in use.

    Parameters
    ----------
    rows
        Node rows, shape (n,).
    columns
        The device matrix; ``used`` is changed.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        for entry in range(occupants.first[row], occupants.last[row]):
            if occupants.costless[entry] < ask.priority:
                device = columns.first[row] + occupants.position[entry]
                for dimension in range(ask.amounts.shape[0]):
                    columns.used[device, dimension] -= occupants.amounts[entry, dimension]


@entry_kernel
def where_costless_suffice(
    columns: DeviceColumns, occupants: Occupants, ask: CardAsk, rows: NDArray[np.int64], into: EvictionCosts
) -> None:
    """Write the least there is to be paid, no pod of the lowest priority, where pods that cost nothing are enough.

    Parameters
    ----------
    columns
        The device matrix without what these hold; see :func:`subtract_costless`.
    rows
        Node rows, shape (n,).
    into
        Written at these rows, where it is so.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        for entry in range(occupants.first[row], occupants.last[row]):
            device = columns.first[row] + occupants.position[entry]
            may_be_enough = occupants.costless[entry] < ask.priority and ask.may_use[device]
            if may_be_enough and _does(columns, occupants, ask, _Card(row, device, entry, entry)):
                _keep_cheaper(into, row, LOWEST_PRIORITY, 0, 0, np.inf)


@kernel
def _compare(
    columns: DeviceColumns, occupants: Occupants, ask: CardAsk, card: _Card, scratch: SetScratch, into: EvictionCosts
) -> None:
    """Take in what the pods of a card cost at least, all of which together would do."""
    # The pods of the lowest priorities that would do together say how high the highest one has to be.
    least = card.end - 1
    while not _does(columns, occupants, ask, _Card(card.row, card.device, least, card.end)):
        least -= 1
    highest, begin = occupants.priority[least], card.begin
    if into.highest[card.row] != NO_PRIORITY and highest > into.highest[card.row]:
        return
    while occupants.priority[begin] > highest:
        begin += 1
    if card.end - begin > MOST_SETS:
        _keep_cheaper(into, card.row, highest, highest - LOWEST_PRIORITY, 1, np.inf)
    else:
        _compare_sets(columns, occupants, ask, _Card(card.row, card.device, begin, card.end), scratch, into)


@kernel
def _does(columns: DeviceColumns, occupants: Occupants, ask: CardAsk, card: _Card) -> bool:
    """Tell whether a card has enough free once all these pods are gone."""
    for dimension in range(ask.amounts.shape[0]):
        free = columns.total[card.device, dimension] - columns.used[card.device, dimension]
        for entry in range(card.begin, card.end):
            free += occupants.amounts[entry, dimension]
        needed = _needed(columns, ask, card.device, dimension)
        if needed > 0 and free < needed:
            return False
    return True


@kernel
def _needed(columns: DeviceColumns, ask: CardAsk, device: int, dimension: int) -> int:
    return asked_of(ask.amounts[dimension], ask.percent[dimension], columns.total[device, dimension])


@kernel
def _compare_sets(
    columns: DeviceColumns, occupants: Occupants, ask: CardAsk, card: _Card, scratch: SetScratch, into: EvictionCosts
) -> None:
    """Compare all sets of pods; the sums of each are those of the set without its most important pod, and of that."""
    size = card.end - card.begin
    scratch.total[0] = 0
    for dimension in range(ask.amounts.shape[0]):
        scratch.amounts[0, dimension] = 0
    for number in range(1, 1 << size):
        first, count = 0, 0
        for bit in range(size - 1, -1, -1):
            if number >> bit & 1:
                first = bit
                count += 1
        rest, entry, does = number & (number - 1), card.begin + first, True
        scratch.total[number] = scratch.total[rest] + occupants.priority[entry] - LOWEST_PRIORITY
        for dimension in range(ask.amounts.shape[0]):
            freed = scratch.amounts[rest, dimension] + occupants.amounts[entry, dimension]
            scratch.amounts[number, dimension] = freed
            free = columns.total[card.device, dimension] - columns.used[card.device, dimension] + freed
            needed = _needed(columns, ask, card.device, dimension)
            does = does and (needed == 0 or free >= needed)
        if does:
            _keep_cheaper(
                into, card.row, occupants.priority[entry], scratch.total[number], count, occupants.start[entry]
            )


@kernel
def _keep_cheaper(into: EvictionCosts, row: int, highest: int, total: int, count: int, start: float) -> None:
    """Write a cost if it is lower than what is written."""
    if into.highest[row] != NO_PRIORITY:
        if highest > into.highest[row]:
            return
        if highest == into.highest[row]:
            if total > into.total[row]:
                return
            if total == into.total[row]:
                if count > into.pods[row]:
                    return
                if count == into.pods[row] and start <= into.start[row]:
                    return
    into.highest[row], into.total[row], into.pods[row], into.start[row] = highest, total, count, start


class PodRequests(NamedTuple):
    """What pods request of their nodes: ``P`` pods, ``R`` resources; those of row ``r`` are ``first[r] : last[r]``."""

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    priority: NDArray[np.int64]  # (P,) as that of occupants
    start: NDArray[np.float64]  # (P,) as that of occupants
    amounts: NDArray[np.int64]  # (P, R)
    costless: NDArray[np.int64]  # (P,) as that of occupants


@entry_kernel
def subtract_lower_priorities(
    rows: NDArray[np.int64],
    below: NDArray[np.int64],
    costless_below: int,
    pods: PodRequests,
    requested: NDArray[np.int64],
    occupants: Occupants,
    devices: DeviceColumns,
) -> None:
    """Take what pods hold off what is in use of their nodes, for all pods below a priority.

    Parameters
    ----------
    rows
        Node rows, shape (n,).
    below
        By row, the priority that pods keep their room from on; shape (N,).
    costless_below
        The priority that those keep it from on whose end costs nothing.
    pods, occupants
        Who requests what of nodes, and who holds what of devices.
    requested
        What is in use of each resource, shape (R, N); changed.
    devices
        What is in use of devices; ``used`` is changed.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        for pod in range(pods.first[row], pods.last[row]):
            if pods.priority[pod] < below[row] or pods.costless[pod] < costless_below:
                for resource in range(pods.amounts.shape[1]):
                    requested[resource, row] -= pods.amounts[pod, resource]
        for entry in range(occupants.first[row], occupants.last[row]):
            if occupants.priority[entry] < below[row] or occupants.costless[entry] < costless_below:
                device = devices.first[row] + occupants.position[entry]
                for dimension in range(occupants.amounts.shape[1]):
                    devices.used[device, dimension] -= occupants.amounts[entry, dimension]


@entry_kernel
def latest_starts(
    rows: NDArray[np.int64], priority: NDArray[np.int64], pods: PodRequests, into: NDArray[np.float64]
) -> None:
    """Write when the youngest pod of a priority on each node began.

    Parameters
    ----------
    rows
        Node rows, shape (n,).
    priority
        That which is asked about on each of them, shape (n,).
    pods
        The pods.
    into
        Receives the starts in the order of ``rows``, shape (n,); minus infinity where there is no such pod.
    """
    for i in range(rows.shape[0]):
        into[i] = -np.inf
        for pod in range(pods.first[rows[i]], pods.last[rows[i]]):
            if pods.priority[pod] == priority[i] and pods.start[pod] > into[i]:
                into[i] = pods.start[pod]
