"""Koordinator's wire formats: the Device object of a node, and the annotation with a pod's allocation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError, UnsupportedError
from vgpu_scheduler.dialects.inventory import InventoryObject
from vgpu_scheduler.dialects.koordinator.names import (
    CORES,
    DEVICE_RESOURCES,
    DEVICE_TYPES,
    DIMENSIONS,
    GPU,
    ISOLATION_LABEL,
    MEMORY,
    MODEL_LABEL,
    PARTITION_POLICY_LABEL,
    VENDOR_LABEL,
)
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.kube import Node, QuantityError, to_int
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, Device, add, quoted

_MOST_DEVICES = 1024
"""A node that lists more is not believed: its devices are sorted for every claim."""
_MOST_AMOUNT = 2**44
"""No device has more of anything; held below it, no sum over devices and pods leaves int64."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_HONOUR = "Honor"
_VENDOR = "nvidia"
"""Whose GPUs are found by the allocation annotation alone; without the label they are taken for these."""
_UNITS = ("", "Ki", "Mi", "Gi", "Ti")


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device of an allocation: its type, its number on the node, its id (empty in old ones), and the amounts."""

    type: str
    minor: int
    id: str
    amounts: Amounts


def device_name(kind: str, minor: int, identity: str) -> str:
    """Return what a device is booked under.

    Koordinator knows a device by its type and minor; the id is kept beside them, because the annotation repeats it,
    and because a card that was exchanged for another is not the same card.
    """
    return f"{kind}/{minor}/{identity}"


# Devices -----------------------------------------------------------------------------------------------------------


def decode_devices(inventory: InventoryObject, node: Node) -> tuple[Device, ...]:
    """Decode the Device object of a node.

    Raises
    ------
    CodecError
        If any part of it is malformed, or is about something that this version does not follow; the message names the
        field. A list counts as a whole or not at all.
    """
    labels = {**node.labels, **_labels(inventory)}
    if node.labels.get(PARTITION_POLICY_LABEL) == _HONOUR or labels.get(PARTITION_POLICY_LABEL) == _HONOUR:
        raise UnsupportedError(f"label {PARTITION_POLICY_LABEL}: GPU partitions are not followed by this version")
    vendor = labels.get(VENDOR_LABEL, "")
    if vendor and vendor.lower() != _VENDOR:
        raise UnsupportedError(
            f"label {VENDOR_LABEL}: what device plugins of {quoted(vendor)} read is not written by this version"
        )
    spec = _object(inventory.get("spec"), "spec")
    listed = spec.get("devices") or []
    if not isinstance(listed, list):
        raise CodecError("spec.devices is not a list")
    if len(listed) > _MOST_DEVICES:
        raise CodecError(f"spec.devices: {len(listed)} devices are more than a node has (at most {_MOST_DEVICES})")
    model = " ".join(filter(None, (vendor, labels.get(MODEL_LABEL))))
    provider = node.labels.get(ISOLATION_LABEL, "")
    devices = [_device(entry, f"spec.devices[{number}]", model, provider) for number, entry in enumerate(listed)]
    seen: set[tuple[str, int]] = set()
    for device in devices:
        if (device.vendor, device.index) in seen:
            raise CodecError(f"spec.devices: {device.vendor} {device.index} is listed twice")
        seen.add((device.vendor, device.index))
    return _grouped(devices, listed)


def _grouped(devices: Iterable[Device], listed: Iterable[Mapping[str, Any]]) -> tuple[Device, ...]:
    """Return devices with the number of the PCIe switch that each is at; one that tells no place is in no group.

    The switches of a node are numbered by NUMA node, then by id, which is the order in which Koordinator looks at them.
    """
    places = [_switch(entry.get("topology")) for entry in listed]
    numbers = {place: number for number, place in enumerate(sorted({place for place in places if place is not None}))}
    return tuple(
        device if place is None else replace(device, group=numbers[place])
        for device, place in zip(devices, places, strict=True)
    )


def _switch(topology: Mapping[str, Any] | None) -> tuple[int, str] | None:
    return None if topology is None else (max(topology.get("nodeID", 0), 0), topology.get("pcieID", ""))


def _labels(inventory: InventoryObject) -> dict[str, str]:
    labels = _object(_object(inventory.get("metadata"), "metadata").get("labels"), "metadata.labels")
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def _device(entry: object, where: str, model: str, provider: str) -> Device:
    fields = _object(entry, where)
    kind = fields.get("type")
    if kind not in DEVICE_TYPES:
        raise UnsupportedError(f"{where}.type: {quoted(kind)} is none of {', '.join(DEVICE_TYPES)}")
    minor, identity, health = fields.get("minor"), fields.get("id") or "", fields.get("health") or False
    if type(minor) is not int or not 0 <= minor <= INT32:
        raise CodecError(f"{where}.minor: {quoted(minor)} is not an integer from 0")
    if not isinstance(identity, str) or _SURROGATE.search(identity):
        raise CodecError(f"{where}.id: {quoted(identity)} is not a text")
    if not isinstance(health, bool):
        raise CodecError(f"{where}.health: {quoted(health)} is not a boolean")
    topology = _object(fields.get("topology"), f"{where}.topology")
    numa, switch = topology.get("nodeID", 0), topology.get("pcieID", "")
    if not isinstance(switch, str) or _SURROGATE.search(switch):
        raise CodecError(f"{where}.topology.pcieID: {quoted(switch)} is not a text")
    if type(numa) is not int or not -1 <= numa <= INT32:
        raise CodecError(f"{where}.topology.nodeID: {quoted(numa)} is not an integer from -1")
    amounts = _object(fields.get("resources"), f"{where}.resources")
    if unknown := sorted(name for name in amounts if name not in DEVICE_RESOURCES):
        raise UnsupportedError(f"{where}.resources: {unknown[0]} is not followed by this version")
    total = _amounts(kind, amounts, f"{where}.resources")
    for name, resource in DEVICE_RESOURCES.items():
        if (
            DIMENSIONS[resource.dimension].unit == "percent"
            and resource.vendor == kind
            and total[resource.dimension] > WHOLE
        ):
            raise CodecError(f"{where}.resources: {name}: {total[resource.dimension]} is no percentage of a device")
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
    )


# Allocations -------------------------------------------------------------------------------------------------------


def decode_allocated(value: str) -> tuple[AllocatedDevice, ...]:
    """Decode the annotation with a pod's allocation.

    Resources that this version does not book are left out: they are of devices that it does not list.

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
    for kind, entries in _object(by_type, "allocation").items():
        if not isinstance(entries, list | None):
            raise CodecError(f"{quoted(kind)} is not a list")
        for number, entry in enumerate(entries or []):
            where = f"{quoted(kind)}[{number}]"
            device = _allocated(kind, entry, where)
            known = allocated.get((kind, device.minor))
            if known is not None:  # several parts of one device
                device = replace(device, amounts=add(known.amounts, device.amounts))
                if max(device.amounts) > _MOST_AMOUNT:
                    raise CodecError(f"{where}: minor {device.minor} has more than a device can have")
            allocated[kind, device.minor] = device
    return tuple(allocated.values())


def _allocated(kind: str, entry: object, where: str) -> AllocatedDevice:
    fields = _object(entry, where)
    minor, identity = fields.get("minor") or 0, fields.get("id") or ""
    if type(minor) is not int or not -INT32 <= minor <= INT32:
        raise CodecError(f"{where}.minor: {quoted(minor)} is not an integer")
    if not isinstance(identity, str) or _SURROGATE.search(identity):
        raise CodecError(f"{where}.id: {quoted(identity)} is not a text")
    resources = _object(fields.get("resources"), f"{where}.resources")
    return AllocatedDevice(kind, minor, identity, _amounts(kind, resources, f"{where}.resources"))


def encode_allocated(assignments: Iterable[Assignment]) -> str:
    """Encode an allocation as Koordinator does: types and resources by name, devices in the order of their choice.

    Compute stands there only where it was asked for; memory and its ratio are always booked.
    """
    by_type: dict[str, list[dict[str, Any]]] = {}
    for assignment in assignments:
        kind, minor, identity = assignment.uuid.split("/", 2)
        resources = {
            name: _quantity(resource.dimension, assignment.amounts[resource.dimension])
            for name, resource in sorted(DEVICE_RESOURCES.items())
            if resource.vendor == kind and (resource.dimension != CORES or assignment.amounts[CORES])
        }
        entry: dict[str, Any] = {"minor": int(minor), "resources": resources}
        if identity:
            entry["id"] = identity
        by_type.setdefault(kind, []).append(entry)
    text = json.dumps(dict(sorted(by_type.items())), separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")  # as Go writes them


def _quantity(dimension: int, amount: int) -> str:
    """Write a quantity: memory with the largest binary unit that leaves no rest, percent as they are."""
    power = 0
    while dimension == MEMORY and amount and amount % 1024 == 0 and power + 1 < len(_UNITS):
        amount //= 1024
        power += 1
    return f"{amount}{_UNITS[power]}"


def fill(asked: Amounts, total: Amounts) -> Amounts:
    """Return what is booked for a claim on a device: of memory and its ratio, the one that is not asked for as well.

    The ratio is cut to whole percent by way of 64-bit floats, as in Koordinator (5Gi of 16Gi are 31 percent).
    """
    share, memory, cores, ratio = asked
    whole = total[MEMORY]
    if ratio and not memory:
        memory = ratio * whole // 100
    elif memory and not ratio and whole:
        ratio = int(memory / whole * 100)
    return (share, memory, cores, ratio)


# Parts -------------------------------------------------------------------------------------------------------------


def _object(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CodecError(f"{where} is not an object")
    return value


def _amounts(kind: str, resources: Mapping[str, Any], where: str) -> Amounts:
    amounts = [0] * len(DIMENSIONS)
    for name, resource in DEVICE_RESOURCES.items():
        if resource.vendor != kind or name not in resources:
            continue
        text = resources[name]
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise CodecError(f"{where}: {name}: {quoted(text)} is not a quantity")
        try:
            amount = to_int(text)
        except QuantityError as error:
            raise CodecError(f"{where}: {name}: {error}") from None
        if not 0 <= amount <= _MOST_AMOUNT:
            raise CodecError(f"{where}: {name}: {text} is not an amount that a device can have")
        amounts[resource.dimension] = amount
    return tuple(amounts)
