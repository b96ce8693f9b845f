"""The nearest miss: which card came closest, and what it lacked."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, FitColumns
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.model import CardReason, Device, Dimension, NearMiss, Shortage
from vgpu_scheduler.state import State

ABOUT_AMOUNTS = (
    CardReason.CardTimeSlicingExhausted,
    CardReason.CardInsufficientMemory,
    CardReason.CardInsufficientCore,
)
"""The reasons that say that too little of a card is free."""


_QUOTA = CardReason.ResourceQuotaNotFit.text


def lacks_amounts(reasons: Collection[str]) -> bool:
    """Tell whether a pod fits nowhere because cards have too little free, and not because of a quota.

    Parameters
    ----------
    reasons
        What nodes and cards reject it for, as messages count it.
    """
    return _QUOTA not in reasons and any(reason.text in reasons for reason in ABOUT_AMOUNTS)


def nearest_miss(
    state: State, dialect: Dialect, fit: FitColumns, allocator: Allocator, rows: NDArray[np.int64]
) -> NearMiss | None:
    """Return the card with the smallest relative shortfall; among equals the smallest node name, then UUID.

    Only nodes that failed for lack of an amount count, and of them only cards in service that the pod may use. A card's
    shortfall is its largest over the dimensions, because all of them would have to be freed; all of them are told.

    Parameters
    ----------
    fit
        What came of the cards of the rows.
    allocator
        Measures what a card lacks for the pod; it has looked at some node.
    rows
        Node rows, shape (n,).
    """
    devices_of = state.matrix(dialect.name)
    columns = devices_of.columns
    lacking = rows[fit.counts[rows][:, list(ABOUT_AMOUNTS)].any(axis=1)]
    cards = (columns.last - columns.first)[lacking]
    owner = np.repeat(lacking, cards)
    offset = np.arange(owner.shape[0]) - np.repeat(np.cumsum(cards) - cards, cards)
    devices = columns.first[owner] + offset
    usable = columns.in_service(devices) & allocator.may_use(devices_of)[devices]
    if not usable.all():
        owner, devices = owner[usable], devices[usable]
    relative, dimension, asked, free = allocator.shortfall(columns, devices)
    short = relative > 0
    if not short.any():
        return None
    closest = np.flatnonzero(short & (relative == relative[short].min()))
    ranks = state.nodes.rank[owner[closest]]
    closest = closest[ranks == ranks.min()]
    number = min(closest.tolist(), key=lambda i: devices_of.uuid(int(devices[i])))
    listed = devices_of.listed(int(owner[number]), int(devices[number]))

    about = dialect.inventory.dimensions
    column = int(dimension[number])
    worst = shortage(about[column], listed, column, int(free[number]), int(asked[number]))
    card = devices[number : number + 1]
    also = [
        shortage(about[other[0]], listed, int(other[0]), int(left[0]), int(wanted[0]))
        for reason in ABOUT_AMOUNTS
        for lacks, other, wanted, left in [allocator.shortfall(columns, card, np.array([reason], dtype=np.int64))]
        if lacks[0] > 0 and other[0] != column
    ]
    return NearMiss(
        node=state.nodes.name(int(owner[number])),
        uuid=listed.uuid,
        dimension=worst.dimension,
        unit=worst.unit,
        free=worst.free,
        asked=worst.asked,
        also=tuple(also),
    )


def shortage(about: Dimension, device: Device, column: int, free: int, asked: int) -> Shortage:
    """Return how much of a dimension of a device is free and how much was asked, in the unit that is named for it.

    Some devices count compute in units of their own, of which percent are said.
    """
    if about.unit == "percent":
        total = device.total[column]
        free, asked = floor(device.compute_percent(free, total)), ceil(device.compute_percent(asked, total))
    return Shortage(about.name, about.unit, free, asked)
