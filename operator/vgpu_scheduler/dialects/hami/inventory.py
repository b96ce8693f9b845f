"""The cards of nodes, as HAMi's device plugins register them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vgpu_scheduler.dialects.errors import CodecError, RegistrationError
from vgpu_scheduler.dialects.hami.codec import all_healthy
from vgpu_scheduler.dialects.hami.mig import SLICES
from vgpu_scheduler.dialects.hami.vendors import Cards, Vendor
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.inventory import InventoryObject, RememberedDevices, with_annotations
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import MIB, WHOLE, Device, DeviceResource, Dimension


@dataclass(frozen=True)
class HamiInventory:
    """The cards of nodes.

    Parameters
    ----------
    vendors
        The vendors, in the order in which their registrations are read.
    """

    vendors: tuple[Vendor, ...]

    dimensions = (
        Dimension("slots", "shares"),
        Dimension("memory", "MiB"),
        Dimension("cores", "percent"),
        *(
            Dimension(f"{number} of its schema", "", internal=True) for number in range(1 + SLICES)
        ),  # as many as MIG cards need
    )
    memory, cores = 1, 2
    memory_unit = MIB
    kind = None

    @cached_property
    def cards(self) -> frozenset[str]:
        """The keys of the vendors."""
        return frozenset(vendor.key for vendor in self.vendors)

    @cached_property
    def compute_units(self) -> Mapping[str, int]:
        """The compute of a card in the unit of claims, for vendors that do not count it in percent."""
        units = {vendor.key: vendor.claims.units for vendor in self.vendors}
        return {vendor: number for vendor, number in units.items() if number != WHOLE}

    @cached_property
    def in_percent(self) -> frozenset[str]:
        """The vendors whose cards all count compute in percent."""
        return frozenset(vendor.key for vendor in self.vendors if vendor.in_percent)

    @cached_property
    def unknown_to_kubelet(self) -> frozenset[str]:
        """Resource names that NodeResourcesFit must ignore, because no node advertises them."""
        return frozenset(name for vendor in self.vendors for name in vendor.claims.unadvertised)

    @cached_property
    def device_resources(self) -> Mapping[str, DeviceResource]:
        """HAMi's and Koordinator's resource names for amounts of cards: policies may weigh either."""
        return dict(_device_resources(self.vendors))

    @cached_property
    def in_sums(self) -> frozenset[str]:
        """The vendors whose amounts are divided among the cards of a container."""
        claims = {vendor.key: vendor.claims for vendor in self.vendors}
        return frozenset(key for key, each in claims.items() if isinstance(each, ShareRequests) and each.divided)

    @cached_property
    def smallest_pieces(self) -> Mapping[str, int]:
        """The memory of the smallest piece of a card, in MiB, by vendor."""
        return {vendor.key: vendor.smallest_piece for vendor in self.vendors if vendor.smallest_piece}

    @cached_property
    def slice_sizes(self) -> Mapping[str, Sequence[int]]:
        """The memory that a slice of a card may have, in MiB, for vendors with slices of one size on each card."""
        return {vendor.key: vendor.slice_sizes for vendor in self.vendors if vendor.slice_sizes}

    @cached_property
    def cordons(self) -> Mapping[str, str]:
        """The node annotation that takes single cards out of service, for vendors that have one."""
        return {vendor.key: vendor.cards.cordon for vendor in self.vendors if vendor.cards.cordon}

    def hardware(self, device: Device) -> str:
        """Return the UUID, which is the hardware's own."""
        return device.uuid

    def with_healthy_devices(self, obj: InventoryObject) -> InventoryObject:
        """Return the node object with all devices of its registrations healthy."""
        given = (obj.get("metadata") or {}).get("annotations") or {}
        registered = {v.cards.source.annotation: v.cards.health for v in self.vendors}
        healthy = {
            name: all_healthy(given[name], field) for name, field in registered.items() if field and name in given
        }
        return with_annotations(obj, healthy) if healthy else obj

    def devices(self, node: Node, inventory_object: InventoryObject | None = None) -> tuple[Device, ...]:
        """Return the devices that the node registered, by vendor, in the order of the registrations.

        Raises
        ------
        RegistrationError
            If the registration of any vendor cannot be decoded; the message names the annotation.
        """
        del inventory_object  # everything is in the node
        found: list[Device] = []
        problems: dict[str, str] = {}
        for vendor in self.vendors:
            facts = vendor.cards.facts(node)
            if facts is None:
                continue
            try:
                listed = _decoded(vendor.cards, vendor.key, facts)
                if found:
                    _check_names(found, listed)
                found += listed
            except CodecError as error:
                problems[vendor.key] = f"{vendor.cards.source}: {error}"
        if problems:
            raise RegistrationError(problems, tuple(found))
        return tuple(found)


def _check_names(known: Iterable[Device], listed: Iterable[Device]) -> None:
    twice = {device.uuid for device in known} & {device.uuid for device in listed}
    if twice:
        raise CodecError(f"device {min(twice)} is listed by another vendor, too")


_remembered = RememberedDevices()


def _decoded(cards: Cards, vendor: str, facts: Hashable) -> tuple[Device, ...]:
    return _remembered.get((cards, vendor, facts), lambda: cards.decode(vendor, facts))


def _device_resources(vendors: Iterable[Vendor]) -> Iterable[tuple[str, DeviceResource]]:
    for vendor in vendors:
        for name, dimension, percent in vendor.claims.dimensions:
            yield name, DeviceResource(vendor.key, dimension, percent)
    gpu = next((vendor.key for vendor in vendors), "")
    yield "koordinator.sh/gpu-memory", DeviceResource(gpu, 1)
    yield "koordinator.sh/gpu-memory-ratio", DeviceResource(gpu, 1, percent=True)
    yield "koordinator.sh/gpu-core", DeviceResource(gpu, 2)
