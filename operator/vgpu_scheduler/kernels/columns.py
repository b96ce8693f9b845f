"""The device matrix as kernels read it, and which of its dimensions means what."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels.sentinels import NO_ROLE
from vgpu_scheduler.model import DimensionRoles

SLOTS, MEMORY, CORES = 0, 1, 2
"""The dimensions that all devices of HAMi have. Those after them mean what the schema of their device says."""


class Role(IntEnum):
    """The columns of ``DeviceColumns.roles``: which dimensions a schema names; see :class:`model.DimensionRoles`."""

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
    """Return the roles of a schema, in the order of :class:`Role`; ``NO_ROLE`` for one that it has not."""
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
    explained: NDArray[np.bool_]  # (D,) all that is in use has a place: see kernels.pieces
    piece_first: NDArray[np.int64]  # (D,) the pieces that a card can be cut into are
    piece_last: NDArray[np.int64]  # (D,) pieces[first:last], in order of preference
    group: NDArray[np.int64]  # (D,) cards with the same number are closest to each other; NO_GROUP
    link_score: NDArray[np.float32]  # (D, 4) of taking as many cards as the card's index says, and one: packing,
    # spreading; the same of more cards than there are
    pair_first: NDArray[np.int64]  # (N,) where the pair scores of the node row begin, or NO_PAIRS
    pairs: NDArray[np.int64]  # (P,) per node its cards x its cards, row by row; HAMi's scores: links, higher is closer
    pieces: NDArray[np.int64]  # (S, K) what is booked for a piece
    roles: NDArray[np.int64]  # (schemas, roles) see Role

    def in_service(self, numbers: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.bool_]:
        """Tell of devices by their numbers which may be given to pods; not for kernels."""
        usable: NDArray[np.bool_] = self.healthy[numbers] & ~self.cordoned[numbers]
        return usable
