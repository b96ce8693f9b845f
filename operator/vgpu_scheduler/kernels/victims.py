"""Lower bounds of the eviction cost per node for a preemptor that takes one card, for all nodes in one call.

Only amounts are compared: capacity and usage of a card, and what the preemptor needs free there. All other conditions
of a fit can only raise the cost. So nodes can be tried in order of these bounds until the next bound reaches the best
cost found. Costs are kube-scheduler's, in its order: the highest victim priority, the sum of the priorities (each
offset by the lowest priority), the number of victims, and the start of the oldest victim of the highest priority.
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
"""Up to this many pods on a card, all sets of them are compared; for more pods the cost of one is the bound."""


class Occupants(NamedTuple):
    """What pods hold of devices: ``E`` entries, one for each pod and device.

    The entries of node row ``r`` are ``first[r] : last[r]``, sorted by device, then priority, then start.
    """

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    position: NDArray[np.int64]  # (E,) position of the device on its node
    priority: NDArray[np.int64]  # (E,) of the pod; NEVER_BELOW if its eviction costs nothing
    start: NDArray[np.float64]  # (E,) seconds since 1970; infinite for a pod that has not started
    amounts: NDArray[np.int64]  # (E, K)
    costless: NDArray[np.int64]  # (E,) priority of a pod that is terminating or not bound yet; else NEVER_BELOW


class CardAsk(NamedTuple):
    """A preemptor that takes one card."""

    priority: int  # only pods of lower priority are victims
    amounts: NDArray[np.int64]  # (K,) what it needs free on the card; if 0, see percent
    percent: NDArray[np.int64]  # (K,) percent of the card's capacity
    may_use: NDArray[np.bool_]  # (D,) which devices it may use


class EvictionCosts(NamedTuple):
    """Lower bounds of the eviction cost; written at the requested rows."""

    highest: NDArray[np.int64]  # (N,) NO_PRIORITY if no eviction helps
    total: NDArray[np.int64]  # (N,)
    pods: NDArray[np.int64]  # (N,) number of victims
    start: NDArray[np.float64]  # (N,) a later start is cheaper


class SetScratch(NamedTuple):
    """Work space for the sets of pods on one card."""

    amounts: NDArray[np.int64]  # (2**MOST_SETS, K) amounts that each set holds
    total: NDArray[np.int64]  # (2**MOST_SETS,)


class _Card(NamedTuple):
    """A device of a node, and the entries of the possible victims on it: ``begin : end``."""

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
    """Write a lower bound of the eviction cost on each node.

    Parameters
    ----------
    columns, occupants, ask
        The device matrix; the pods' usage of it; the preemptor.
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
    """Subtract the usage of lower-priority pods whose eviction costs nothing.

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
    """Write the lowest cost (no victim) where pods whose eviction costs nothing free enough.

    Parameters
    ----------
    columns
        The device matrix without the usage of these pods; see :func:`subtract_costless`.
    rows
        Node rows, shape (n,).
    into
        Written at the rows where they free enough.
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
    """Update the cost of a node with that of a card on which evicting all candidates frees enough."""
    # The smallest set of lowest-priority pods that frees enough determines the highest victim priority.
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
    """Tell whether a card has enough free without the pods of ``card``."""
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
    """Compare all sets of pods; the sums of a set are those of the set without its first pod, plus that pod."""
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
    """Write a cost if it is lower than the current one."""
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
    """Requests of ``P`` pods for ``R`` resources; the pods of row ``r`` are ``first[r] : last[r]``."""

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    priority: NDArray[np.int64]  # (P,) as in Occupants
    start: NDArray[np.float64]  # (P,) as in Occupants
    amounts: NDArray[np.int64]  # (P, R)
    costless: NDArray[np.int64]  # (P,) as in Occupants


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
    """Subtract the usage of all pods below a priority from the usage of their nodes.

    Parameters
    ----------
    rows
        Node rows, shape (n,).
    below
        By row, the priority below which pods are subtracted; shape (N,).
    costless_below
        The same for pods whose eviction costs nothing.
    pods, occupants
        The pods' requests, and their usage of devices.
    requested
        Usage of each resource, shape (R, N); changed.
    devices
        The device matrix; ``used`` is changed.
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
def summarize_possible_victims(
    rows: NDArray[np.int64],
    priority: NDArray[np.int64],
    pods: PodRequests,
    latest: NDArray[np.float64],
    number: NDArray[np.int64],
) -> None:
    """Write the start of the youngest pod of a priority on each node, and how many pods have at most that priority.

    Parameters
    ----------
    rows
        Node rows, shape (n,).
    priority
        The priority for each row, shape (n,).
    pods
        The pods.
    latest
        Receives the starts in the order of ``rows``, shape (n,); minus infinity where there is no such pod.
    number
        Receives the numbers of pods in the same order, shape (n,).
    """
    for i in range(rows.shape[0]):
        latest[i], number[i] = -np.inf, 0
        for pod in range(pods.first[rows[i]], pods.last[rows[i]]):
            if pods.priority[pod] <= priority[i]:
                number[i] += 1
            if pods.priority[pod] == priority[i] and pods.start[pod] > latest[i]:
                latest[i] = pods.start[pod]
