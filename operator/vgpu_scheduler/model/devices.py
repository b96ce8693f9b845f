"""Devices as a node registers them, and the claims that containers make on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

MIB: Final = 2**20
GIB: Final = 2**30
"""Bytes."""
WHOLE: Final = 100
"""Percent of a card."""
VendorKey = tuple[str, str]
"""A dialect and one of its vendors: two dialects may call different devices by one word."""

Amounts = tuple[int, ...]
"""An amount per dimension of a dialect, in that dialect's order and units."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One thing that a device has an amount of.

    Attributes
    ----------
    internal
        It is bookkeeping of pieces and classes, of which nobody asks for an amount, and nobody is told one.
    """

    name: str
    unit: str
    internal: bool = False


def names_model(part: str, model: str) -> bool:
    """Tell whether a text names cards of a model: it is a part of the model's name, case ignored."""
    return part.lower() in model.lower()


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece that a device can be cut into, at one place.

    Attributes
    ----------
    profile
        What the kind of piece is called (``1g.10gb``).
    start, size
        The slices of the device that it covers.
    amounts
        What is booked for it, one amount per dimension of the dialect.
    template
        The template that it is a part of, where the device follows one at a time; ``start`` is then its number in it.
    """

    profile: str
    start: int
    size: int
    amounts: Amounts
    template: int | None = None


@dataclass(frozen=True, slots=True)
class DimensionRoles:
    """Which dimensions the devices of a vendor have after slots, memory and cores; others may use them otherwise.

    Attributes
    ----------
    placements
        Counts the shares that have a place on the device; only devices that are given out in pieces have it.
    slices
        One for each slice that pieces cover: a device has 1 of those that it has.
    classes
        Count occupants: those without an application class, online ones, offline ones; none, or these three.
    qualities
        Count the occupants that ask for each quality of service.
    """

    placements: int | None = None
    slices: range = range(0)
    classes: range = range(0)
    qualities: range = range(0)


PLAIN_SCHEMA = DimensionRoles()
"""Of devices that have nothing else."""


MOST_BANDWIDTH: Final = 2**60
"""No partition has more."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Devices of a node that are given out together.

    Attributes
    ----------
    members
        Their indexes, ascending.
    score
        Partitions of as many devices with a lower score are looked at first.
    bandwidth
        What the bus that joins them can carry, in bytes a second; None where nobody says.
    """

    members: tuple[int, ...]
    score: int = 0
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """How the devices of a node are given out together.

    Attributes
    ----------
    partitions
        In the order in which they are looked at, of equals.
    only
        Whole devices are given out in no other way.
    """

    partitions: tuple[Partition, ...] = ()
    only: bool = False


class Compute(Enum):
    """What a device counts its compute in."""

    PERCENT = "percent"
    UNITS = "units"
    """Units of its own, as many as it happens to have."""
    MASK = "mask"
    """One bit for each of its cores."""


@dataclass(frozen=True, slots=True)
class Device:
    """One physical card as its device plugin registered it.

    Attributes
    ----------
    uuid
        The name that allocations are booked under.
    vendor
        The vendor's word in its dialect (``NVIDIA``); claims name it, not the model.
    type
        The model (``NVIDIA A100-SXM4-80GB``).
    total
        What the card has, one amount per dimension of its dialect.
    index, numa
        Position on the node, and NUMA node (0 where unknown).
    mode
        How the card is shared (``hami-core``, ``mig``, ``mps``); empty where nobody says, or the dialect has no modes.
    healthy
        What the plugin last said; missing counts as unhealthy.
    cordoned
        An administrator took the card out of service for new allocations.
    links
        How close other cards are to it: UUID and score, sorted by UUID; more is closer, a card that is missing has 0.
    pieces
        What it can be cut into, in order of preference; only devices that are given out in pieces have any.
    group
        Devices with the same number are closest to each other, -1 is in no group.
    tag
        What the node side calls it beside its UUID, where it does.
    schema
        What the dimensions after slots, memory and cores are.
    link_score
        How good it is for the links of the node that ``index + 1`` of its devices are taken: for a policy that packs,
        and for one that spreads. More is better.
    link_score_beyond
        The same for more devices than the node has: containers that run one after the other may take the same ones.
    in_percent
        Occupants get compute in percent of the card, whatever ``total`` counts it in.
    compute
        What ``total``, and what occupants get unless that is in percent, counts compute in.
    place
        What allocations call it that were written without its id; empty where there are none such.
    labels
        The labels that the node side gives it, sorted by name; pods may select devices by them.
    partitions
        How it is given out with others of its vendor on the node; the same for all of them, None where nobody says.
    part
        It is a part of another device of the node, whose index ``group`` is, and is not counted as one more.
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
    def lacks_geometry(self) -> bool:
        """Whether it is in MIG mode without any piece that it may be given out in: it is given to nobody."""
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
        """Return what an amount of compute is in percent of the device, of which it has ``total``."""
        if self.in_percent or self.compute is Compute.PERCENT:
            return float(cores)
        if self.compute is Compute.MASK:
            cores, total = cores.bit_count(), total.bit_count()
        return 100.0 * cores / total if total else 0.0


@dataclass(frozen=True, slots=True)
class DeviceResource:
    """What a resource name stands for in the device matrix.

    Attributes
    ----------
    vendor
        Whose devices; scorers add up over these only.
    dimension
        Which amount of them.
    percent
        Counted in percent of each device's total, so that a device has 100, instead of in the dimension's unit.
    """

    vendor: str
    dimension: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class QuotaResource:
    """What a resource name stands for in namespace quotas (``limits.<name>`` of a ResourceQuota).

    Attributes
    ----------
    vendor
        Whose devices; what a namespace holds of them is added up over all of them.
    dimension
        Which amount of them.
    unit
        How much of the dimension one of the resource is.
    bytes
        How many bytes one of the dimension is, where an amount that is written with a unit is in bytes; 0 where it is
        in the same as others.
    of_card
        The resource is in percent of a card, whatever the dimension is counted in.
    """

    vendor: str
    dimension: int
    unit: int = 1
    bytes: int = 0
    of_card: bool = False


class ContainerKind(IntEnum):
    """When a container runs, which decides how its claims add up."""

    INIT = 0
    SIDECAR = 1
    APP = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """What one container asks of one vendor.

    Attributes
    ----------
    vendor
        Whose devices.
    count
        How many different devices, at least 1.
    amounts
        The amount per device and dimension; 0 means that ``percent`` may say it.
    percent
        Percent of the device's total per dimension, used where ``amounts`` is 0; 0 means none.
    mode
        How the devices must be shared, as :class:`Device` says it; None where that does not matter.
    """

    vendor: str
    count: int
    amounts: Amounts
    percent: Amounts
    mode: str | None = None

    def on(self, total: Amounts) -> Amounts:
        """Resolve the claim on a device that has ``total``; percent is multiplied before it is divided.

        A device may have dimensions that the claim says nothing about; the amounts are about the claim's.
        """
        return tuple(
            amount or capacity * percent // 100
            for amount, percent, capacity in zip(self.amounts, self.percent, total, strict=False)
        )


@dataclass(frozen=True, slots=True)
class ClaimDefaults:
    """What a policy adds to the claims of a pod.

    Attributes
    ----------
    memory
        Bytes per device for a container that does not say how much, or None.
    cores
        Percent of compute per device for a container that does not say, or None.
    exclusive
        Every device is claimed whole in compute, so that nobody else can join.
    """

    memory: int | None = None
    cores: int | None = None
    exclusive: bool = False


NO_DEFAULTS = ClaimDefaults()


@dataclass(frozen=True, slots=True)
class ContainerClaims:
    """The claims of one container, at most one per vendor, ordered by vendor.

    Attributes
    ----------
    dialect
        Whose names they are in.
    """

    name: str
    kind: ContainerKind
    claims: tuple[Claim, ...] = ()
    dialect: str = ""


PodClaims = tuple[ContainerClaims, ...]
"""The claims of a pod: init containers first, then app containers, one entry each, empty ones included."""


def claims_devices(claims: PodClaims) -> bool:
    """Tell whether any container of the pod asks for a device."""
    return any(container.claims for container in claims)


def dialect_of(claims: PodClaims) -> str:
    """Return the dialect that the devices are claimed in; empty for a pod that claims none."""
    return next((container.dialect for container in claims if container.claims), "")
