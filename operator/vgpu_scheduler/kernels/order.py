"""The order in which HAMi's Fit tries the cards of a node: the score of each card, sort keys, a stable sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.cache import entry_kernel, kernel
from vgpu_scheduler.kernels.columns import CORES, MEMORY, SLOTS, DeviceColumns
from vgpu_scheduler.kernels.deviceshare import ShareAsk, share_score
from vgpu_scheduler.kernels.request import (
    KEY_INDEX,
    KEY_MEMORY_LEFT,
    KEY_NUMA,
    KEY_SCORE,
    KEY_USED,
    KEY_USED_MEMORY,
    WEIGHT,
    CardClaim,
    Request,
    Scratch,
    resolve,
)


@entry_kernel
def score_cards(columns: DeviceColumns, request: Request, here: CardClaim, score: NDArray[np.float32]) -> None:
    """Score every card of the node as if the whole container were placed on it.

    Parameters
    ----------
    columns, request
        The device matrix; the pod's claims and weights.
    here
        The container's first claim on the node.
    score
        Receives the scores, shape (>= cards,); 0 for a card without slots, memory or cores.
    """
    claim, used = here.claim, here.used
    container = request.claims.container[claim]
    for position in range(used.shape[0]):
        device = here.base + position
        slots = used[position, SLOTS]
        memory = used[position, MEMORY]
        cores = used[position, CORES]
        other = claim
        while other < request.claims.container.shape[0] and request.claims.container[other] == container:
            if request.claims.vendor[other] == columns.vendor[device]:
                slots += request.claims.wanted[other]
                memory += resolve(request, other, columns.total, device, MEMORY)
                cores += resolve(request, other, columns.total, device, CORES)
            other += 1
        count = columns.total[device, SLOTS]
        total_memory = columns.total[device, MEMORY]
        total_cores = columns.total[device, CORES]
        if count == 0 or total_memory == 0 or total_cores == 0:
            score[position] = np.float32(0.0)
            continue
        score[position] = WEIGHT * (
            request.order.weights[SLOTS] * (np.float32(slots) / np.float32(count))
            + request.order.weights[CORES] * (np.float32(cores) / np.float32(total_cores))
            + request.order.weights[MEMORY] * (np.float32(memory) / np.float32(total_memory))
        )


@kernel
def score_shares(columns: DeviceColumns, request: Request, here: CardClaim, score: NDArray[np.float32]) -> None:
    """Score every card of the node by DeviceShare for one device of the container's claim on the card's vendor.

    Parameters
    ----------
    columns, request
        The device matrix; the pod's claims, strategy and weights.
    here
        The container's first claim on the node.
    score
        Receives the scores, shape (>= cards,); 0 for cards that the container does not claim.
    """
    claims, container = request.claims.container.shape[0], request.claims.container[here.claim]
    for position in range(here.used.shape[0]):
        device = here.base + position
        vendor = columns.vendor[device]
        own = here.claim
        while own < claims and request.claims.container[own] == container and request.claims.vendor[own] != vendor:
            own += 1
        score[position] = 0.0
        if own < claims and request.claims.container[own] == container:
            asked = ShareAsk(vendor, request.claims.amounts[own], request.claims.percent[own])
            used = here.used[position : position + 1]
            score[position] = share_score(columns, device, used, request.order.share, asked)


@kernel
def write_keys(columns: DeviceColumns, request: Request, scratch: Scratch, here: CardClaim) -> None:
    """Write the sort keys of the cards; every key sorts ascending."""
    used, score, keys = here.used, scratch.score, scratch.keys
    for k in range(request.order.keys.shape[0]):
        key = request.order.keys[k]
        kind = abs(key)
        sign = 1.0 if key > 0 else -1.0
        for position in range(used.shape[0]):
            device = here.base + position
            if kind == KEY_SCORE:
                value = np.float64(score[position])
            elif kind == KEY_NUMA:
                value = np.float64(columns.numa[device])
            elif kind == KEY_USED:
                value = np.float64(used[position, SLOTS])
            elif kind == KEY_INDEX:
                value = np.float64(columns.ordinal[device])
            elif kind == KEY_USED_MEMORY:
                value = np.float64(used[position, MEMORY])
            else:
                dimension = MEMORY if kind == KEY_MEMORY_LEFT else CORES
                taken = resolve(request, here.claim, columns.total, device, dimension)
                value = np.float64(columns.total[device, dimension] - used[position, dimension]) - np.float64(taken)
            keys[position, k] = sign * value


@kernel
def sort_cards(keys: NDArray[np.float64], order: NDArray[np.int64]) -> None:
    """Sort the cards in place, stably: equal cards keep the order that an earlier container left."""
    for i in range(1, order.shape[0]):
        moving = order[i]
        j = i - 1
        while j >= 0:
            before = False
            for k in range(keys.shape[1]):
                a = keys[moving, k]
                b = keys[order[j], k]
                if a != b:
                    before = a < b
                    break
            if not before:
                break
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = moving
