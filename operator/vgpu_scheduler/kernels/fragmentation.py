"""The fragmentation score: how many cards a pod would strand on a node, and how badly it fits its cards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.arrays import copy_rows
from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.request import PodDemand, asked_of
from vgpu_scheduler.kernels.sentinels import NO_CARD
from vgpu_scheduler.model import WHOLE, ContainerType

_INIT = int(ContainerType.INIT)
_MIDDLE, _POINTS, _MOST = 50.0, 5.0, 100.0
_NUDGE = 1e-9  # absorbs rounding, so that equal costs summed in another order give equal points


class CardScratch(NamedTuple):
    """Work space for the node with the most cards (``M``)."""

    used: NDArray[np.int64]  # (M, K)
    left: NDArray[np.float64]  # (M,) 0 to 1
    taken: NDArray[np.bool_]  # (M,) by the pod
    passed: NDArray[np.bool_]  # (M,) already taken by the current claim


class NodeCpu(NamedTuple):
    """Cpu in milli: the pod's request, and allocatable and used amounts of the node rows."""

    asked: int
    offered: NDArray[np.int64]  # (N,)
    used: NDArray[np.int64]  # (N,)


@kernel
def _left(slots: int, memory: int, most_memory: int, cores: int, most_cores: int) -> float:
    """Return the free part of a card, 0 to 1: the least over its dimensions.

    It takes numbers, not columns, because passing an array costs more than the computation.
    """
    if slots <= 0:
        return 0.0
    left = 1.0
    if most_memory > 0:
        left = min(left, memory / most_memory)
    if most_cores > 0:
        left = min(left, cores / most_cores)
    return max(left, 0.0)


@kernel
def write_left(columns: DeviceColumns, base: int, scratch: CardScratch) -> float:
    """Write the free part of each card of a node, and return the sum."""
    total, used = columns.total, scratch.used
    together = 0.0
    for position in range(used.shape[0]):
        device = base + position
        left = 0.0  # for cards out of service
        if columns.healthy[device] and not columns.cordoned[device]:
            left = _left(
                total[device, SLOTS] - used[position, SLOTS],
                total[device, MEMORY] - used[position, MEMORY],
                total[device, MEMORY],
                total[device, CORES] - used[position, CORES],
                total[device, CORES],
            )
        scratch.left[position] = left
        together += left
    return together


@kernel
def _take_best(columns: DeviceColumns, demand: PodDemand, claim: int, base: int, scratch: CardScratch) -> int:
    """Book the card that the claim fits tightest, the last of ties; return its position, or ``NO_CARD``."""
    total, used = columns.total, scratch.used
    best = NO_CARD
    least_memory = least_cores = 0
    for position in range(used.shape[0]):
        device = base + position
        if scratch.passed[position] or scratch.left[position] == 0.0 or columns.vendor[device] != demand.vendor[claim]:
            continue
        asked = asked_of(demand.amounts[claim, MEMORY], demand.percent[claim, MEMORY], total[device, MEMORY])
        memory = total[device, MEMORY] - used[position, MEMORY] - asked
        asked = asked_of(demand.amounts[claim, CORES], demand.percent[claim, CORES], total[device, CORES])
        asked = min(asked, WHOLE)
        cores = total[device, CORES] - used[position, CORES] - asked
        if memory < 0 or cores < 0 or (asked == WHOLE and used[position, SLOTS] > 0):
            continue
        if best == NO_CARD or memory < least_memory or (memory == least_memory and cores <= least_cores):
            best = position
            least_memory = memory
            least_cores = cores
    if best != NO_CARD:
        card = base + best
        scratch.passed[best] = True
        scratch.taken[best] = True
        used[best, SLOTS] += 1
        used[best, MEMORY] = total[card, MEMORY] - least_memory
        used[best, CORES] = total[card, CORES] - least_cores
        slots = total[card, SLOTS] - used[best, SLOTS]
        scratch.left[best] = _left(slots, least_memory, total[card, MEMORY], least_cores, total[card, CORES])
    return best


@kernel
def take_cards(columns: DeviceColumns, demand: PodDemand, base: int, scratch: CardScratch) -> None:
    """Book the pod's claims, each on its best-fitting cards; skip init containers, whose cards are given back."""
    scratch.taken[:] = False
    for claim in range(demand.container.shape[0]):
        if demand.kind[claim] == _INIT:
            continue
        scratch.passed[:] = False
        for _ in range(demand.wanted[claim]):
            if _take_best(columns, demand, claim, base, scratch) == NO_CARD:
                break


@kernel
def stranded_cards(cards_left: float, cpu_left: float, per_card: float) -> float:
    """Return how many free cards exceed what the free cpu can serve."""
    served = max(cpu_left, 0.0) / per_card if per_card > 0.0 else 0.0
    return max(cards_left - served, 0.0)


@entry_kernel
def fragmentation_nodes(
    cpu: NodeCpu,
    columns: DeviceColumns,
    demand: PodDemand,
    rows: NDArray[np.int64],
    scratch: CardScratch,
    score: NDArray[np.float64],
) -> None:
    """Score nodes from 0 to 100 by what a pod would cost them, in cards.

    Parameters
    ----------
    cpu
        The cpu request of the pod, and the cpu of the nodes.
    columns
        The device matrix.
    demand
        The device claims of the pod.
    rows
        Node rows, shape (n,).
    scratch
        Work space.
    score
        Receives the scores, shape (n,).
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        base = columns.first[row]
        cards = columns.last[row] - base
        if cards == 0:
            score[i] = _MOST
            continue
        own = CardScratch(scratch.used[:cards], scratch.left[:cards], scratch.taken[:cards], scratch.passed[:cards])
        copy_rows(columns.used[base : base + cards], own.used)
        free = np.float64(cpu.offered[row]) - np.float64(cpu.used[row])
        per_card = cpu.offered[row] / cards
        before = write_left(columns, base, own)
        take_cards(columns, demand, base, own)
        after = 0.0
        beside = 0.0
        for position in range(cards):
            after += own.left[position]
            if own.taken[position]:
                beside += own.left[position]
        growth = stranded_cards(after, free - cpu.asked, per_card) - stranded_cards(before, free, per_card)
        score[i] = min(max(np.floor(_MIDDLE - _POINTS * (growth + beside) + 0.5 + _NUDGE), 0.0), _MOST)
