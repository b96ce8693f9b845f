"""The nearest miss: which card came closest, and what it lacked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator, FitColumns, Lacking
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.model import (
    CardReason,
    Device,
    Dimension,
    NearMiss,
    RejectionReason,
    Shortage,
    percent_free,
    percent_used,
)
from vgpu_scheduler.state import DeviceMatrix, State

ABOUT_AMOUNTS = (
    CardReason.CardTimeSlicingExhausted,
    CardReason.CardInsufficientMemory,
    CardReason.CardInsufficientCore,
)
"""The reasons for which too little of a card is free."""


def lacks_amounts(reasons: Collection[RejectionReason]) -> bool:
    """Tell whether a pod fits nowhere because too little is free on cards, and not because of a quota.

    Parameters
    ----------
    reasons
        The reasons of nodes and cards, as in messages.
    """
    return CardReason.ResourceQuotaNotFit not in reasons and any(reason in reasons for reason in ABOUT_AMOUNTS)


def nearest_miss(
    state: State, dialect: Dialect, fit: FitColumns, allocator: Allocator, rows: NDArray[np.int64]
) -> NearMiss | None:
    """Return the card with the smallest relative shortfall; ties go to the smallest node name, then UUID.

    Only nodes that failed for lack of an amount count, and of them only cards in service that the pod may use. A card's
    shortfall is its largest over the dimensions, because all of them would have to be freed; all of them are reported.

    Parameters
    ----------
    fit
        The results of the card filter.
    allocator
        Measures what a card lacks for the pod; it has been used on some node.
    rows
        Node rows, shape (n,).
    """
    matrix = state.matrix(dialect.name)
    owners, devices = _usable_cards(matrix, allocator, rows[fit.counts[rows][:, list(ABOUT_AMOUNTS)].any(axis=1)])
    together = False
    lacking = allocator.shortfall(matrix.columns, devices)
    if allocator.several and not (lacking[0] > 0).any():  # each container fits, but not all together
        together = True
        lacking = allocator.shortfall(matrix.columns, devices, together=True)
    closest = _closest(state, matrix, owners, devices, lacking[0])
    if closest is None:
        return None
    row, device = int(owners[closest]), int(devices[closest])
    shortages = _Shortages(matrix.listed(row, device), dialect, in_pieces=allocator.several)
    shortages.note(lacking, closest, together=together)  # the largest first
    card = devices[closest : closest + 1]
    for of_all in (False, True) if allocator.several else (False,):
        for reason in ABOUT_AMOUNTS:
            about = np.array([reason], dtype=np.int64)
            shortages.note(allocator.shortfall(matrix.columns, card, about, together=of_all), 0, together=of_all)
    return NearMiss(node=state.nodes.name(row), uuid=matrix.uuid(device), shortages=shortages.all())


def _usable_cards(
    matrix: DeviceMatrix, allocator: Allocator, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cards of some nodes that are in service and that the pod may use: the rows of their nodes, and them.

    Both have shape (n,).
    """
    columns = matrix.columns
    counts = (columns.last - columns.first)[rows]
    owners = np.repeat(rows, counts)
    positions = np.arange(owners.shape[0]) - np.repeat(np.cumsum(counts) - counts, counts)
    devices = columns.first[owners] + positions
    usable = columns.in_service(devices) & allocator.may_use(matrix)[devices]
    return owners[usable], devices[usable]


def _closest(
    state: State,
    matrix: DeviceMatrix,
    owners: NDArray[np.int64],
    devices: NDArray[np.int64],
    relative: NDArray[np.float64],
) -> int | None:
    """Return the index of the card with the smallest relative shortfall; None if no card lacks anything.

    Ties go to the smallest node name, then UUID.
    """
    lacks = relative > 0
    if not lacks.any():
        return None
    closest = np.flatnonzero(lacks & (relative == relative[lacks].min()))
    ranks = state.nodes.name_order[owners[closest]]
    on_first_node: list[int] = closest[ranks == ranks.min()].tolist()
    return min(on_first_node, key=lambda index: matrix.uuid(int(devices[index])))


class _Shortages:
    """What a card lacks, each once.

    Parameters
    ----------
    device
        The card.
    dialect
        Its dialect.
    in_pieces
        Whether amounts of a card that has pieces concern single pieces.
    """

    def __init__(self, device: Device, dialect: Dialect, *, in_pieces: bool) -> None:
        self._device = device
        self._inventory = dialect.inventory
        self._in_pieces = in_pieces and bool(device.pieces)
        self._noted: dict[tuple[int, bool], tuple[int, Shortage]] = {}
        """By dimension, and whether it is of all containers together: what was asked for, and the shortage."""

    def note(self, lacking: Lacking, index: int, *, together: bool) -> None:
        """Note what a card lacks for one container, or for all together, unless that was said already."""
        relative, dimension, asked, free = (each[index] for each in lacking)
        column, wanted = int(dimension), int(asked)
        if relative <= 0 or (column, together) in self._noted:
            return
        of_one_container, _ = self._noted.get((column, False), (None, None))
        if together and of_one_container == wanted:
            return
        found = shortage(self._inventory.dimensions[column], self._device, column, int(free), wanted)
        # A piece has several slots where claims name a number of slices of a card.
        slices = column == SLOTS and wanted > 1 and not together
        of_piece = self._in_pieces and (column == self._inventory.memory or slices)
        self._noted[column, together] = wanted, replace(found, together=together, piece=of_piece)

    def all(self) -> tuple[Shortage, ...]:
        """Return what was noted, in this order."""
        return tuple(found for _, found in self._noted.values())


def shortage(dimension: Dimension, device: Device, column: int, free: int, asked: int) -> Shortage:
    """Return how much of a dimension of a device is free and how much was asked for, in the dimension's unit.

    Devices that count compute in their own units are reported in percent.
    """
    if dimension.unit == "percent":
        free, asked = percent_free(device, free, column), percent_used(device, asked, column)
    return Shortage(dimension.name, dimension.unit, free, asked)
