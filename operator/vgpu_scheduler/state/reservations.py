"""What a pod holds on a node, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from vgpu_scheduler.kube import HostPort
from vgpu_scheduler.model import (
    NO_USAGE,
    NO_VOLUMES,
    Amounts,
    Device,
    Placement,
    PodClaims,
    Usage,
    Uses,
    VolumePlan,
    charges,
    kinds_of,
    peak,
)
from vgpu_scheduler.model.placement import Assignment


class Phase(Enum):
    """How sure a reservation is."""

    ASSUMED = "assumed"
    """Decided here, not yet seen in the API."""
    IN_DOUBT = "in doubt"
    """Decided here, and its Binding can no longer come; nobody can tell whether it has."""
    CONFIRMED = "confirmed"
    """The API answered that the pod is bound; no observation shows it yet."""
    BOUND = "bound"
    """An observation shows the pod on the node."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod's hold on a node: devices and Kubernetes resources.

    Attributes
    ----------
    uses
        What it uses of devices, by dialect.
    widened
        The charges are the maximum of several allocations seen while the pod ran, not the one in its annotations now;
        a rebuild from the API would come to less.
    placement
        Kept until an observation shows the pod bound, for the re-check before binding.
    ports
        The host ports that the pod takes.
    """

    uid: str
    pod: str
    node: str
    phase: Phase
    uses: Uses
    requests: Mapping[str, int]
    placement: Placement | None = None
    widened: bool = False
    ports: tuple[HostPort, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.pod.partition("/")[0]

    @property
    def volumes(self) -> VolumePlan:
        """What was decided about the claims of the pod, while the placement is assumed."""
        return self.placement.volumes if self.placement else NO_VOLUMES

    def charges_the_same(self, other: Reservation) -> bool:
        """Tell whether another one is charged the same, so that no version moves where it takes the place of this."""
        return (
            self.node == other.node
            and self.uses == other.uses
            and self.requests == other.requests
            and self.ports == other.ports
        )

    @property
    def uses_devices(self) -> bool:
        """Whether the pod holds anything of any device."""
        return any(usage.charges or usage.unreadable for usage in self.uses.values())

    @property
    def closes_cards(self) -> bool:
        """Whether nobody can tell which cards the pod is on, so that it is charged on all that it may be on."""
        return any(usage.unreadable for usage in self.uses.values())

    def device_charges(self, dialect: str, devices: tuple[Device, ...]) -> dict[str, Amounts]:
        """Return what the pod is charged on each of the node's devices of a dialect; UUIDs not listed are left out.

        Claims that cannot be attributed to a card that is listed are charged on every card of their vendor.
        """
        usage = self.uses.get(dialect)
        if usage is None:
            return {}
        listed = {device.uuid: device for device in devices}
        result = {uuid: amounts for uuid, amounts in usage.charges.items() if uuid in listed}
        displaced = {id(claims): claims for uuid, claims in usage.displaced.items() if uuid not in listed}
        for claims in (usage.unreadable, *displaced.values()):
            for device in devices if claims else ():
                blanket = blanket_charge(claims, device)
                if blanket:
                    result[device.uuid] = peak(result[device.uuid], blanket) if device.uuid in result else blanket
        return result

    def ghosts(self, dialect: str, devices: tuple[Device, ...]) -> tuple[str, ...]:
        """Return the UUIDs of a dialect that the pod holds although the node does not list them now."""
        listed, usage = {device.uuid for device in devices}, self.uses.get(dialect)
        return tuple(uuid for uuid in usage.charges if uuid not in listed) if usage else ()


def blanket_charge(claims: PodClaims, device: Device) -> Amounts | None:
    """Return what the pod would use of ``device`` if all its claims on that vendor sat there; None if it has none."""
    containers = [
        [
            Assignment(claim.vendor, device.uuid, claim.on(device.total))
            for claim in container.claims
            if claim.vendor == device.vendor
        ]
        for container in claims
    ]
    return charges(kinds_of(claims), containers).get(device.uuid)


def widen(old: Uses, new: Uses) -> Uses:
    """Return the larger of what a running pod was seen to use, device by device."""
    return {dialect: _widen(old.get(dialect, NO_USAGE), new.get(dialect, NO_USAGE)) for dialect in {**old, **new}}


def _widen(old: Usage, new: Usage) -> Usage:
    merged = dict(new.charges)
    for uuid, amounts in old.charges.items():
        merged[uuid] = peak(merged[uuid], amounts) if uuid in merged else amounts
    displaced = {**old.displaced, **new.displaced}
    vendors = {**old.vendors, **new.vendors}
    return Usage(merged, new.unreadable or old.unreadable, new.problem, displaced, vendors)
