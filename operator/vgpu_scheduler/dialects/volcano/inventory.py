"""The cards of nodes, as Volcano's device plugin registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.templates import smallest_instance
from vgpu_scheduler.dialects.inventory import InventoryObject, RememberedDevices, check_number, with_annotations
from vgpu_scheduler.dialects.volcano import names as keys
from vgpu_scheduler.dialects.volcano.codec import all_healthy, decode_register
from vgpu_scheduler.dialects.volcano.mig import DIMENSIONS, with_instances
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import MIB, Device, DeviceResource, Dimension, quoted

_CORES = 100
"""Every card has 100 percent of compute; the plugin does not register it."""


@dataclass(frozen=True, slots=True)
class VolcanoInventory:
    """The cards of nodes.

    Parameters
    ----------
    requests
        The resource names and their units.
    """

    requests: VolcanoRequests
    _remembered: RememberedDevices = field(default_factory=RememberedDevices, compare=False, repr=False)

    memory, cores = 1, 2
    kind = None
    cards = in_percent = frozenset({keys.VENDOR})
    compute_units: ClassVar[Mapping[str, int]] = {}
    in_sums: ClassVar[frozenset[str]] = frozenset()
    cordons: ClassVar[Mapping[str, str]] = {}

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Slots, memory in blocks of ``memory_factor`` MiB, cores."""
        factor = self.requests.memory_factor
        unit = "MiB" if factor == 1 else f"x {factor} MiB"
        shared = (Dimension("slots", "shares"), Dimension("memory", unit), Dimension("cores", "percent"))
        return (*shared, *DIMENSIONS) if self.requests.mig_geometries else shared

    @property
    def memory_unit(self) -> int:
        """Bytes of one block of memory."""
        return MIB * self.requests.memory_factor

    @property
    def slice_sizes(self) -> Mapping[str, Sequence[int]]:
        """None: instances of several sizes share a card."""
        return {}

    @property
    def smallest_pieces(self) -> Mapping[str, int]:
        """The memory of the smallest configured instance, in blocks."""
        sizes = smallest_instance(self.requests.mig_geometries)
        return {keys.VENDOR: sizes // self.requests.memory_factor} if sizes else {}

    @property
    def unknown_to_kubelet(self) -> frozenset[str]:
        """The memory percentage: the plugin only advertises cards, memory and cores to the kubelet."""
        return frozenset({self.requests.memory_percent}) - {""}

    @property
    def device_resources(self) -> Mapping[str, DeviceResource]:
        """Volcano's names for amounts of cards."""
        return _device_resources(self.requests)

    def hardware(self, device: Device) -> str:
        """Return the UUID, which is the hardware's own."""
        return device.uuid

    def with_healthy_devices(self, obj: InventoryObject) -> InventoryObject:
        """Return the node object with all devices of its registration healthy."""
        value = ((obj.get("metadata") or {}).get("annotations") or {}).get(keys.REGISTER_ANNOTATION)
        return obj if value is None else with_annotations(obj, {keys.REGISTER_ANNOTATION: all_healthy(value)})

    def devices(self, node: Node, inventory_object: InventoryObject | None = None) -> tuple[Device, ...]:
        """Return the cards that the node registered, in the order written; none without a registration.

        A node whose allocatable amount of cards, memory or cores is 0 has none either, because its plugin has stopped.

        Raises
        ------
        CodecError
            If the registration cannot be decoded; the message names the annotation.
        """
        del inventory_object  # everything is in the node's annotations
        value = node.annotations.get(keys.REGISTER_ANNOTATION)
        advertised = (self.requests.count, self.requests.memory, self.requests.cores)
        if value is None or not all(node.allocatable.get(name) for name in advertised):
            return ()
        try:
            return self._remembered.get(value, lambda: _registered(value, self.requests))
        except CodecError as error:
            raise CodecError(f"annotation {keys.REGISTER_ANNOTATION}: {error}") from None


def _registered(value: str, requests: VolcanoRequests) -> tuple[Device, ...]:
    registered = decode_register(value)
    check_number(len(registered), "cards")
    # In Volcano a node has one mode, that of its last card; any mode but MIG is hami-core.
    whole_node = bool(registered) and registered[-1].mode == keys.MODE_MIG
    seen: dict[str, Device] = {}
    for index, card in enumerate(registered):
        if not card.uuid or set(";[").intersection(card.uuid):
            raise CodecError(f"card {quoted(card.uuid)} has no id, or a separator of the assignment format in it")
        if card.uuid in seen:
            raise CodecError(f"card {card.uuid} is listed twice")
        mode = keys.MODE_MIG if whole_node or card.mode == keys.MODE_MIG else keys.MODE_CORE
        total = (card.count, card.memory, _CORES)
        device = Device(card.uuid, keys.VENDOR, card.type, total, index, 0, mode, card.health)
        seen[card.uuid] = with_instances(device, requests)
    return tuple(seen.values())


@lru_cache(maxsize=8)
def _device_resources(requests: VolcanoRequests) -> Mapping[str, DeviceResource]:
    resources = {
        requests.count: DeviceResource(keys.VENDOR, 0),
        requests.memory: DeviceResource(keys.VENDOR, 1),
        requests.cores: DeviceResource(keys.VENDOR, 2),
    }
    if requests.memory_percent:
        resources[requests.memory_percent] = DeviceResource(keys.VENDOR, 1, percent=True)
    return resources
