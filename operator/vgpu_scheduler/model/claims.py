"""The claims that containers make on devices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from vgpu_scheduler.model.devices import Amounts


class ContainerType(IntEnum):
    """When a container runs, which decides how its claims add up."""

    INIT = 0
    SIDECAR = 1
    APP = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """What one container requests of one vendor.

    Attributes
    ----------
    vendor
        The vendor of the devices.
    count
        The number of different devices, at least 1.
    amounts
        The amount per device and dimension; if 0, see ``percent``.
    percent
        Percent of the device's total per dimension, used where ``amounts`` is 0; 0 means none.
    mode
        The mode that the devices must have (see :class:`Device`); None for any.
    """

    vendor: str
    count: int
    amounts: Amounts
    percent: Amounts
    mode: str | None = None

    def on(self, total: Amounts) -> Amounts:
        """Resolve the claim on a device that has ``total``; percent is multiplied before it is divided.

        The result has the dimensions of the claim; the device may have more.
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
        Bytes per device for a container that names no memory, or None.
    cores
        Percent of compute per device for a container that names none, or None.
    exclusive
        Whether all compute of each device is claimed, so that no other pod can share it.
    """

    memory: int | None = None
    cores: int | None = None
    exclusive: bool = False

    def memory_in(self, unit: int) -> int:
        """Return the memory in a unit of so many bytes, rounded down to at least 1; 0 for None."""
        return 0 if self.memory is None else max(self.memory // unit, 1)


NO_DEFAULTS = ClaimDefaults()


@dataclass(frozen=True, slots=True)
class ContainerClaims:
    """The claims of one container, at most one per vendor, ordered by vendor.

    Attributes
    ----------
    dialect
        The dialect of the claims.
    """

    name: str
    type: ContainerType
    claims: tuple[Claim, ...] = ()
    dialect: str = ""


PodClaims = tuple[ContainerClaims, ...]
"""The claims of a pod: init containers first, then app containers, one entry each, empty ones included."""


def claims_devices(claims: PodClaims) -> bool:
    """Tell whether any container of the pod asks for a device."""
    return any(container.claims for container in claims)


def vendors_of(claims: PodClaims) -> frozenset[str]:
    """Return the vendors of the devices that a pod claims."""
    return frozenset(claim.vendor for container in claims for claim in container.claims)


def number_of_cards(claims: PodClaims) -> int:
    """Return how many cards, or pieces of cards, are claimed."""
    return sum(claim.count for container in claims for claim in container.claims)


def dialect_of(claims: PodClaims) -> str:
    """Return the dialect that the devices are claimed in; empty for a pod that claims none."""
    return next((container.dialect for container in claims if container.claims), "")
