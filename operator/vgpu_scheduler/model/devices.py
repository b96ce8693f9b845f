"""Devices as a node registers them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

MIB: Final = 2**20
GIB: Final = 2**30
"""Bytes."""
WHOLE: Final = 100
"""Percent of a card."""
VendorKey = tuple[str, str]
"""A dialect and one of its vendors: two dialects may use the same vendor name for different devices."""

Amounts = tuple[int, ...]
"""An amount per dimension of a dialect, in that dialect's order and units."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One thing that a device has an amount of.

    Attributes
    ----------
    internal
        Whether it is bookkeeping of pieces and classes, which users can neither request nor see.
    """

    name: str
    unit: str
    internal: bool = False


def names_model(part: str, model: str) -> bool:
    """Tell whether a text is a substring of a model's name, ignoring case."""
    return part.lower() in model.lower()


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece that a device can be cut into, at one position.

    Attributes
    ----------
    profile
        The name of the kind of piece (``1g.10gb``).
    start, size
        The slices of the device that it covers.
    amounts
        The amounts that are booked for it, one per dimension of the dialect.
    template
        The template that it is a part of, for devices that follow one at a time; ``start`` is then its number in it.
    """

    profile: str
    start: int
    size: int
    amounts: Amounts
    template: int | None = None


@dataclass(frozen=True, slots=True)
class DimensionRoles:
    """The meaning of a vendor's dimensions after slots, memory and cores; it may differ between vendors.

    Attributes
    ----------
    placements
        Counts the slots that have a place on the device; only devices that are given out in pieces have it.
    slices
        One dimension for each slice that pieces cover: a device has 1 of each of its slices.
    classes
        Three counts of occupants, or none: without an application class, online, offline.
    qualities
        One count for each quality of service, of the occupants that ask for it.
    """

    placements: int | None = None
    slices: range = range(0)
    classes: range = range(0)
    qualities: range = range(0)


PLAIN_SCHEMA = DimensionRoles()
"""The schema of devices without further dimensions."""


MOST_BANDWIDTH: Final = 2**60
"""The maximum bandwidth of a partition."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Devices of a node that are given out together.

    Attributes
    ----------
    members
        The indexes of the devices, ascending.
    score
        Among partitions of the same size, those with a lower score are tried first.
    bandwidth
        The bandwidth of the bus that joins the devices, in bytes a second; None if unknown.
    """

    members: tuple[int, ...]
    score: int = 0
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """The partitions of a node's devices.

    Attributes
    ----------
    partitions
        The partitions; ties are tried in this order.
    only
        Whether whole devices are given out only by partition.
    """

    partitions: tuple[Partition, ...] = ()
    only: bool = False


class Compute(Enum):
    """The unit in which a device counts its compute."""

    PERCENT = "percent"
    UNITS = "units"
    """A vendor-specific unit; the total depends on the device."""
    MASK = "mask"
    """A bit mask with one bit per core."""


@dataclass(frozen=True, slots=True)
class Device:
    """One physical card as its device plugin registered it.

    Attributes
    ----------
    uuid
        The name under which allocations are booked.
    vendor
        The vendor's name in its dialect (``NVIDIA``); claims name the vendor, not the model.
    type
        The model (``NVIDIA A100-SXM4-80GB``).
    total
        The capacity of the card, one amount per dimension of its dialect.
    index, numa
        Position on the node, and NUMA node (0 if unknown).
    mode
        How the card is shared (``hami-core``, ``mig``, ``mps``); empty if unknown, or if the dialect has no modes.
    healthy
        The health that the plugin reported last; missing counts as unhealthy.
    cordoned
        Whether an administrator has closed the card for new allocations.
    links
        Link scores to other cards: UUID and score, sorted by UUID; higher is closer, a missing card has 0.
    pieces
        The pieces that it can be cut into, in order of preference; empty unless it is given out in pieces.
    group
        Devices with the same group number are closest to each other; -1 for no group.
    tag
        Another name of the device on the node side, if it has one.
    schema
        The meaning of the dimensions after slots, memory and cores.
    link_score
        Score of taking ``index + 1`` of the node's devices, by their links: for a policy that packs, and for one that
        spreads. More is better.
    link_score_beyond
        The same for more devices than the node has, which init containers can reach by taking the same ones.
    in_percent
        Whether occupants get compute in percent of the card, whatever unit ``total`` uses.
    compute
        The unit of compute in ``total``, and in occupants' amounts unless these are in percent.
    place
        The name of the device in allocations that were written without its id; empty if there can be none.
    labels
        The labels that the node side gives it, sorted by name; pods may select devices by them.
    partitions
        The partition table of its vendor's devices on the node, the same for all of them; None if there is none.
    part
        Whether it is a part of another device of the node (``group`` is its index), and is not counted separately.
    """

    uuid: str
    vendor: str
    type: str
    total: Amounts
    index: int = 0
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    cordoned: bool = False
    links: tuple[tuple[str, int], ...] = ()
    pieces: tuple[Piece, ...] = ()
    group: int = -1
    tag: str = ""
    schema: DimensionRoles = PLAIN_SCHEMA
    link_score: tuple[float, float] = (0.0, 0.0)
    link_score_beyond: tuple[float, float] = (0.0, 0.0)
    in_percent: bool = False
    compute: Compute = Compute.PERCENT
    place: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    partitions: PartitionTable | None = None
    part: bool = False

    @property
    def most_pieces(self) -> int:
        """The largest number of pieces that it can be cut into, as far as it has slots for them; 0 without pieces."""
        of_templates = Counter(piece.template for piece in self.pieces if piece.template is not None)
        places, end = 0, 0
        for piece in sorted(self.pieces, key=lambda piece: piece.start + piece.size):
            if piece.template is None and piece.start >= end:
                places, end = places + 1, piece.start + piece.size
        return min(max([places, *of_templates.values()]), self.total[0])

    @property
    def is_partitioned(self) -> bool:
        """Whether it is given out in pieces only."""
        placements = self.schema.placements
        return placements is not None and any(self.total[placements : placements + 1])

    @property
    def has_slices(self) -> bool:
        """Whether pieces have a place on it."""
        slices = self.schema.slices
        return bool(self.pieces) and any(self.total[slices.start : slices.stop])

    @property
    def lacks_geometry(self) -> bool:
        """Whether it is in MIG mode but has no pieces, so that it cannot be given to any pod."""
        return self.mode == "mig" and not self.pieces

    @property
    def in_service(self) -> bool:
        """Whether it may be given to pods."""
        return self.healthy and not self.cordoned

    @property
    def state(self) -> str:
        """Whether it is in service, or why not: ``ready``, ``unhealthy`` or ``cordoned``."""
        return "ready" if self.in_service else "cordoned" if self.healthy else "unhealthy"

    def compute_percent(self, cores: int, total: int) -> float:
        """Return an amount of compute in percent of the device, whose total is ``total``."""
        if self.in_percent or self.compute is Compute.PERCENT:
            return float(cores)
        if self.compute is Compute.MASK:
            cores, total = cores.bit_count(), total.bit_count()
        return 100.0 * cores / total if total else 0.0


@dataclass(frozen=True, slots=True)
class DeviceResource:
    """The devices and the dimension that a resource name stands for.

    Attributes
    ----------
    vendor
        The vendor of the devices; scorers sum up over these only.
    dimension
        The dimension.
    percent
        Whether it is counted in percent of each device's total (a device has 100) instead of in the dimension's unit.
    """

    vendor: str
    dimension: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class QuotaResource:
    """The devices and the dimension that a resource name limits in a ResourceQuota (``limits.<name>``).

    Attributes
    ----------
    vendor
        The vendor of the devices; what a namespace holds is summed up over all of them.
    dimension
        The dimension.
    unit
        The amount of the dimension per unit of the resource.
    bytes
        The bytes per unit of the dimension, if quantities with a suffix are in bytes; 0 if these are in the same unit
        as quantities without one.
    of_card
        Whether the resource is in percent of a card, whatever unit the dimension has.
    """

    vendor: str
    dimension: int
    unit: int = 1
    bytes: int = 0
    of_card: bool = False
