"""The device matrix as kernels read it, and the meaning of its dimensions."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.sentinels import NO_ROLE
from vgpu_scheduler.model import DimensionRoles

SLOTS, MEMORY, CORES = 0, 1, 2
"""The dimensions of all HAMi devices. The schema of a device defines the dimensions after them."""


class DimensionRole(IntEnum):
    """The columns of ``DeviceColumns.roles``: the dimensions of a schema by role; see :class:`model.DimensionRoles`."""

    PLACEMENTS = 0
    """``NO_ROLE`` where the devices are not given out in pieces."""
    FIRST_SLICE = 1
    END_SLICE = 2
    WITHOUT_CLASS = 3
    ONLINE = 4
    OFFLINE = 5
    FIRST_QUALITY = 6
    END_QUALITY = 7


def role_row(schema: DimensionRoles) -> tuple[int, ...]:
    """Return the dimensions of a schema in the order of :class:`DimensionRole`; ``NO_ROLE`` for missing roles."""
    placements = NO_ROLE if schema.placements is None else schema.placements
    slices, qualities = schema.slices, schema.qualities
    classes = tuple(schema.classes) or (NO_ROLE, NO_ROLE, NO_ROLE)
    return (placements, slices.start, slices.stop, *classes, qualities.start, qualities.stop)


class DeviceColumns(NamedTuple):
    """The device matrix: ``D`` devices, ``N`` node rows, ``K`` dimensions.

    The devices of node row ``r`` are ``first[r] : last[r]``, in canonical order (index, then UUID).
    """

    first: NDArray[np.int64]  # (N,)
    last: NDArray[np.int64]  # (N,)
    total: NDArray[np.int64]  # (D, K)
    used: NDArray[np.int64]  # (D, K)
    vendor: NDArray[np.int32]  # (D,) interned vendor
    model: NDArray[np.int32]  # (D,) interned (vendor, type, mode)
    schema: NDArray[np.int32]  # (D,) interned schema: a row of roles
    numa: NDArray[np.int64]  # (D,)
    ordinal: NDArray[np.int64]  # (D,) position on the node, as registered
    healthy: NDArray[np.bool_]  # (D,)
    cordoned: NDArray[np.bool_]  # (D,)
    partitioned: NDArray[np.bool_]  # (D,) given out in pieces only
    consistent: NDArray[np.bool_]  # (D,) its usage can be that of pieces: see kernels.pieces
    piece_first: NDArray[np.int64]  # (D,) the pieces that a card can be cut into are
    piece_last: NDArray[np.int64]  # (D,) pieces[first:last], in order of preference
    group: NDArray[np.int64]  # (D,) cards with the same number are closest to each other; NO_GROUP
    link_score: NDArray[np.float32]  # (D, 4) score of taking (index + 1) cards: packing, spreading; then the same
    # for taking more cards than there are
    pair_first: NDArray[np.int64]  # (N,) begin of the pair scores of the node row, or NO_PAIRS
    pairs: NDArray[np.int64]  # (P,) per node its cards x its cards, row by row; HAMi's scores: links, higher is closer
    pieces: NDArray[np.int64]  # (S, K) the amounts booked for a piece
    roles: NDArray[np.int64]  # (schemas, roles) see DimensionRole

    def in_service(self, numbers: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.bool_]:
        """Tell which device numbers may be given to pods; not for kernels."""
        usable: NDArray[np.bool_] = self.healthy[numbers] & ~self.cordoned[numbers]
        return usable
