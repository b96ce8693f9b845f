"""The nearest miss: which card came closest, and what it lacked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, FitColumns, Lacking
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kernels import SLOTS
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
    lacks = allocator.shortfall(columns, devices)
    if fits_alone := allocator.several and not (lacks[0] > 0).any():  # each container would, and all together do not
        lacks = allocator.shortfall(columns, devices, together=True)
    relative = lacks[0]
    short = relative > 0
    if not short.any():
        return None
    closest = np.flatnonzero(short & (relative == relative[short].min()))
    ranks = state.nodes.name_order[owner[closest]]
    closest = closest[ranks == ranks.min()]
    number = min(closest.tolist(), key=lambda i: devices_of.uuid(int(devices[i])))
    listed = devices_of.listed(int(owner[number]), int(devices[number]))

    card, memory = devices[number : number + 1], dialect.inventory.memory
    in_pieces = allocator.several and bool(listed.pieces)
    found: dict[tuple[int, bool], tuple[int, Shortage]] = {}

    def take(lacking: Lacking, where: int, *, together: bool) -> None:
        part, dimension, asked, free = (each[where] for each in lacking)
        column, wanted = int(dimension), int(asked)
        if part <= 0 or (column, together) in found or (together and found.get((column, False), (0,))[0] == wanted):
            return
        told = shortage(dialect.inventory.dimensions[column], listed, column, int(free), wanted)
        # Of slots a piece has several where claims say how many slices of a card they want.
        of_piece = in_pieces and (column == memory or (column == SLOTS and wanted > 1 and not together))
        found[column, together] = wanted, replace(told, together=together, piece=of_piece)

    take(lacks, number, together=fits_alone)
    for together in (False, True) if allocator.several else (False,):
        for reason in ABOUT_AMOUNTS:
            about = np.array([reason], dtype=np.int64)
            take(allocator.shortfall(columns, card, about, together=together), 0, together=together)
    shortages = tuple(told for _, told in found.values())
    return NearMiss(node=state.nodes.name(int(owner[number])), uuid=listed.uuid, shortages=shortages)


def shortage(about: Dimension, device: Device, column: int, free: int, asked: int) -> Shortage:
    """Return how much of a dimension of a device is free and how much was asked, in the unit that is named for it.

    Some devices count compute in units of their own, of which percent are said.
    """
    if about.unit == "percent":
        total = device.total[column]
        free, asked = floor(device.compute_percent(free, total)), ceil(device.compute_percent(asked, total))
    return Shortage(about.name, about.unit, free, asked)
