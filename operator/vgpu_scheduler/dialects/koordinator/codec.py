"""Koordinator's wire formats: the Device object of a node, and the annotation with a pod's allocation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError, UnsupportedError
from vgpu_scheduler.dialects.inventory import MOST_DEVICES, InventoryObject
from vgpu_scheduler.dialects.koordinator.booked import AllocatedDevice, device_name, parts_of
from vgpu_scheduler.dialects.koordinator.functions import allocated_functions, by_parent, decode_functions
from vgpu_scheduler.dialects.koordinator.names import (
    CORES,
    DEVICE_RESOURCES,
    DEVICE_TYPES,
    DIMENSIONS,
    GPU,
    ISOLATION_LABEL,
    MEMORY,
    MODEL_LABEL,
    VENDOR_LABEL,
)
from vgpu_scheduler.dialects.koordinator.partitions import decode_partitions
from vgpu_scheduler.dialects.koordinator.parts import (
    MOST_AMOUNT,
    amounts_of,
    integer_of,
    labels_of,
    list_of,
    object_of,
    text_of,
)
from vgpu_scheduler.dialects.values import INT32, go_json
from vgpu_scheduler.kube import Node, in_binary_units
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, Device, add, quoted

_VENDOR = "nvidia"
"""The vendor whose GPUs need only the allocation annotation; the default for nodes without the vendor label."""


# Devices -----------------------------------------------------------------------------------------------------------


def decode_devices(inventory: InventoryObject, node: Node) -> tuple[Device, ...]:
    """Decode the Device object of a node.

    Raises
    ------
    CodecError
        If any part of it is malformed or not supported; the message names the field. No device is then used.
    """
    labels = {**node.labels, **_labels(inventory)}
    vendor = labels.get(VENDOR_LABEL, "")
    if vendor and vendor.lower() != _VENDOR:
        raise UnsupportedError(
            f"label {VENDOR_LABEL}: what device plugins of {quoted(vendor)} read is not written by this version"
        )
    spec = object_of(inventory.get("spec"), "spec")
    listed = list_of(spec.get("devices"), "spec.devices")
    if len(listed) > MOST_DEVICES:
        raise CodecError(f"spec.devices: {len(listed)} devices are more than a node has (at most {MOST_DEVICES})")
    model = " ".join(filter(None, (vendor, labels.get(MODEL_LABEL))))
    provider = node.labels.get(ISOLATION_LABEL, "")
    devices = [_device(entry, f"spec.devices[{number}]", model, provider) for number, entry in enumerate(listed)]
    seen: set[tuple[str, int]] = set()
    for device in devices:
        if (device.vendor, device.index) in seen:
            raise CodecError(f"spec.devices: {device.vendor} {device.index} is listed twice")
        seen.add((device.vendor, device.index))
    functions = decode_functions(devices, listed)
    if len(devices) + len(functions) > MOST_DEVICES:
        raise CodecError(f"spec.devices: {len(functions)} virtual functions are more than a node has")
    partitions = decode_partitions(inventory, node)
    if partitions is not None:
        devices = [replace(device, partitions=partitions) if device.vendor == GPU else device for device in devices]
    return (*_grouped(devices, listed), *functions)


def _grouped(devices: Iterable[Device], listed: Iterable[Mapping[str, Any]]) -> tuple[Device, ...]:
    """Return devices with the number of their PCIe switch as ``group``; without a topology they have no group.

    The switches of a node are numbered by NUMA node, then by id, which is the order in which Koordinator tries them.
    """
    places = [_switch(entry.get("topology")) for entry in listed]
    numbers = {place: number for number, place in enumerate(sorted({place for place in places if place is not None}))}
    return tuple(
        device if place is None else replace(device, group=numbers[place])
        for device, place in zip(devices, places, strict=True)
    )


def _switch(topology: Mapping[str, Any] | None) -> tuple[int, str] | None:
    return None if topology is None else (max(topology.get("nodeID") or 0, 0), topology.get("pcieID") or "")


def _labels(inventory: InventoryObject) -> dict[str, str]:
    labels = object_of(object_of(inventory.get("metadata"), "metadata").get("labels"), "metadata.labels")
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def _device(entry: object, where: str, model: str, provider: str) -> Device:
    fields = object_of(entry, where)
    kind = fields.get("type")
    if kind not in DEVICE_TYPES:
        raise UnsupportedError(f"{where}.type: {quoted(kind)} is not one of {', '.join(DEVICE_TYPES)}")
    minor, health = fields.get("minor"), fields.get("health") or False
    if type(minor) is not int or not 0 <= minor <= INT32:
        raise CodecError(f"{where}.minor: {quoted(minor)} is not an integer from 0")
    identity = text_of(fields.get("id"), f"{where}.id")
    if not isinstance(health, bool):
        raise CodecError(f"{where}.health: {quoted(health)} is not a boolean")
    topology = object_of(fields.get("topology"), f"{where}.topology")
    text_of(topology.get("pcieID"), f"{where}.topology.pcieID")
    numa = integer_of(topology.get("nodeID"), f"{where}.topology.nodeID", least=-1)
    amounts = object_of(fields.get("resources"), f"{where}.resources")
    if unknown := sorted(name for name in amounts if name not in DEVICE_RESOURCES):
        raise UnsupportedError(f"{where}.resources: {unknown[0]} is not supported by this version")
    total = amounts_of(kind, amounts, f"{where}.resources")
    for name, resource in DEVICE_RESOURCES.items():
        if (
            DIMENSIONS[resource.dimension].unit == "percent"
            and resource.vendor == kind
            and total[resource.dimension] > WHOLE
        ):
            raise CodecError(f"{where}.resources: {name}: {total[resource.dimension]} is not a percentage of a device")
    return Device(
        uuid=device_name(kind, minor, identity),
        place=device_name(kind, minor, "") if identity else "",
        vendor=kind,
        type=model if kind == GPU else "",
        total=total,
        index=minor,
        numa=max(numa, 0),
        mode=provider if kind == GPU else "",
        healthy=health,
        labels=labels_of(fields.get("labels"), f"{where}.labels"),
    )


# Allocations -------------------------------------------------------------------------------------------------------


def decode_allocated(value: str) -> tuple[AllocatedDevice, ...]:
    """Decode the annotation with a pod's allocation.

    Unknown resources are left out: they belong to devices that this version does not list.

    Raises
    ------
    CodecError
        If it is malformed; a pod with such an annotation counts as unreadable as a whole.
    """
    try:
        by_type = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from None
    allocated: dict[tuple[str, int], AllocatedDevice] = {}
    functions: dict[tuple[str, int, str], AllocatedDevice] = {}
    for kind, entries in object_of(by_type, "allocation").items():
        for number, entry in enumerate(list_of(entries, quoted(kind))):
            where = f"{quoted(kind)}[{number}]"
            device = _allocated(kind, entry, where)
            for function in allocated_functions(kind, device.minor, object_of(entry, where), where):
                functions[kind, function.minor, function.id] = function
            known = allocated.get((kind, device.minor))
            if known is not None:  # several parts of one device
                device = replace(device, amounts=add(known.amounts, device.amounts))
                if max(device.amounts) > MOST_AMOUNT:
                    raise CodecError(f"{where}: minor {device.minor} has more than a device can have")
            allocated[kind, device.minor] = device
    return (*allocated.values(), *functions.values())


def _allocated(kind: str, entry: object, where: str) -> AllocatedDevice:
    fields = object_of(entry, where)
    minor, identity = integer_of(fields.get("minor"), f"{where}.minor"), text_of(fields.get("id"), f"{where}.id")
    resources = object_of(fields.get("resources"), f"{where}.resources")
    return AllocatedDevice(kind, minor, identity, amounts_of(kind, resources, f"{where}.resources"))


def encode_allocated(assignments: Iterable[Assignment]) -> str:
    """Encode an allocation as Koordinator does: types and resources by name, devices in the order of the choice.

    Compute is written only if it was requested; memory and its ratio are always written.
    """
    by_type: dict[str, list[dict[str, Any]]] = {}
    devices, functions = by_parent(assignments)
    for assignment in devices:
        kind, minor, identity = parts_of(assignment.uuid)
        resources = {
            name: _quantity(resource.dimension, assignment.amounts[resource.dimension])
            for name, resource in sorted(DEVICE_RESOURCES.items())
            if resource.vendor == kind and (resource.dimension != CORES or assignment.amounts[CORES])
        }
        entry: dict[str, Any] = {"minor": minor, "resources": resources}
        if identity:
            entry["id"] = identity
        if (kind, minor) in functions:
            entry["extension"] = {"vfs": functions[kind, minor]}
        by_type.setdefault(kind, []).append(entry)
    return go_json(dict(sorted(by_type.items())))


def _quantity(dimension: int, amount: int) -> str:
    """Format a quantity: memory with the largest exact binary suffix, percentages as they are."""
    return in_binary_units(amount) if dimension == MEMORY else str(amount)


def fill(asked: Amounts, total: Amounts) -> Amounts:
    """Return the amounts to book for a claim on a device; memory and memory ratio are derived from each other.

    As in Koordinator, the ratio is truncated to whole percent from a 64-bit float (5Gi of 16Gi are 31 percent).
    """
    share, memory, cores, ratio = asked
    whole = total[MEMORY]
    if ratio and not memory:
        memory = ratio * whole // 100
    elif memory and not ratio and whole:
        ratio = int(memory / whole * 100)
    return (share, memory, cores, ratio)
