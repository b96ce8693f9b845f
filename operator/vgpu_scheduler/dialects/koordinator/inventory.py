"""The devices of nodes under Koordinator, as the Device object of a node lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.inventory import InventoryObject
from vgpu_scheduler.dialects.koordinator.booked import id_of
from vgpu_scheduler.dialects.koordinator.codec import decode_devices
from vgpu_scheduler.dialects.koordinator.names import (
    CORES,
    DEVICE_RESOURCES,
    DIMENSIONS,
    FPGA,
    GPU,
    GPU_SHARED,
    MEMORY,
    RDMA,
)
from vgpu_scheduler.kube import ApiResource, Node
from vgpu_scheduler.model import Device, DeviceResource


@dataclass(frozen=True, slots=True)
class KoordinatorInventory:
    """The devices of nodes."""

    dimensions = DIMENSIONS
    memory, cores = MEMORY, CORES
    memory_unit = 1
    kind = ApiResource("Device", "scheduling.koordinator.sh", "v1alpha1", "devices")
    cards = in_percent = frozenset({GPU})
    in_sums = frozenset({GPU, RDMA, FPGA})
    compute_units: ClassVar[Mapping[str, int]] = {}
    cordons: ClassVar[Mapping[str, str]] = {}
    smallest_pieces: ClassVar[Mapping[str, int]] = {}
    slice_sizes: ClassVar[Mapping[str, Sequence[int]]] = {}
    unknown_to_kubelet = frozenset({GPU_SHARED})
    """Koordinator advertises a node's totals of all its other resources, but of this one only behind a feature gate."""
    device_resources: ClassVar[Mapping[str, DeviceResource]] = DEVICE_RESOURCES

    def hardware(self, device: Device) -> str:
        """Return the id from the Device object, which is the last part of the booked name."""
        return id_of(device.uuid)

    def with_healthy_devices(self, obj: InventoryObject) -> InventoryObject:
        """Return the Device object with all of its devices healthy."""
        spec = obj.get("spec")
        if not isinstance(spec, Mapping) or not isinstance(listed := spec.get("devices"), list):
            return obj
        healthy = [{**entry, "health": True} if isinstance(entry, Mapping) else entry for entry in listed]
        return {**obj, "spec": {**spec, "devices": healthy}}

    def devices(self, node: Node, inventory_object: InventoryObject | None = None) -> tuple[Device, ...]:
        """Return the devices of the node's Device object, in its order; none without one.

        Raises
        ------
        CodecError
            If the object is malformed or not supported.
        """
        if inventory_object is None:
            return ()
        try:
            return decode_devices(inventory_object, node)
        except CodecError as error:
            raise type(error)(f"Device {node.name}: {error}") from None
