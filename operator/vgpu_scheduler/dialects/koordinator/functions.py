"""Virtual functions of devices: decoding from Device objects and allocations, and encoding for pods.

A virtual function is booked as a device of its own, named by its parent device's minor and its bus id, and is given
exclusively to one pod. The annotation lists functions at their parent device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.koordinator.booked import AllocatedDevice, device_name, parts_of
from vgpu_scheduler.dialects.koordinator.names import DIMENSIONS, FUNCTIONS_OF, SHARE
from vgpu_scheduler.dialects.koordinator.parts import integer_of, labels_of, list_of, object_of, text_of
from vgpu_scheduler.model import WHOLE, Amounts, Assignment, Device

WHOLE_FUNCTION: Amounts = tuple(WHOLE if dimension == SHARE else 0 for dimension in range(len(DIMENSIONS)))
"""The capacity of a function, and the amounts that are booked for it."""
_DEVICE_OF: Mapping[str, str] = {functions: kind for kind, functions in FUNCTIONS_OF.items()}


def decode_functions(devices: Sequence[Device], listed: Sequence[Mapping[str, Any]]) -> tuple[Device, ...]:
    """Return the virtual functions of devices, sorted by device and bus id; ``group`` is the device's minor.

    Parameters
    ----------
    devices
        The devices of a node.
    listed
        The entries of the devices in the Device object, in the same order.

    Raises
    ------
    CodecError
        If one is malformed, or listed twice.
    """
    functions: dict[str, Device] = {}
    for number, (device, entry) in enumerate(zip(devices, listed, strict=True)):
        if device.vendor not in FUNCTIONS_OF:
            continue
        for function in _functions(device, entry, f"spec.devices[{number}].vfGroups"):
            if function.uuid in functions:
                raise CodecError(f"spec.devices[{number}].vfGroups: {parts_of(function.uuid)[2]} is listed twice")
            functions[function.uuid] = function
    return tuple(functions[name] for name in sorted(functions, key=lambda name: (functions[name].group, name)))


def _functions(device: Device, entry: Mapping[str, Any], where: str) -> Iterator[Device]:
    found = []
    for number, raw in enumerate(list_of(entry.get("vfGroups"), where)):
        group = object_of(raw, f"{where}[{number}]")
        labels = labels_of(group.get("labels"), f"{where}[{number}].labels")
        for position, each in enumerate(list_of(group.get("vfs"), f"{where}[{number}].vfs")):
            found.append((*_function(object_of(each, where), f"{where}[{number}].vfs[{position}]"), labels))
    kind = FUNCTIONS_OF[device.vendor]
    for index, (bus, minor, labels) in enumerate(sorted(found)):
        yield Device(
            uuid=device_name(kind, device.index, bus),
            vendor=kind,
            type="",
            total=WHOLE_FUNCTION,
            index=index,
            numa=device.numa,
            healthy=device.healthy,
            group=device.index,
            tag=str(minor),
            labels=labels,
            part=True,
        )


def _function(fields: Mapping[str, Any], where: str) -> tuple[str, int]:
    """Return the bus id and the minor of a function."""
    bus = text_of(fields.get("busID"), f"{where}.busID")
    if not bus:
        raise CodecError(f"{where}.busID is missing")
    return bus, integer_of(fields.get("minor"), f"{where}.minor")


def allocated_functions(kind: str, minor: int, entry: Mapping[str, Any], where: str) -> Iterator[AllocatedDevice]:
    """Yield the functions in an entry of an allocation.

    Raises
    ------
    CodecError
        If one is malformed.
    """
    extension = object_of(entry.get("extension"), f"{where}.extension")
    for number, each in enumerate(list_of(extension.get("vfs"), f"{where}.extension.vfs")):
        place = f"{where}.extension.vfs[{number}]"
        bus, _ = _function(object_of(each, place), place)
        if kind in FUNCTIONS_OF:
            yield AllocatedDevice(FUNCTIONS_OF[kind], minor, bus, WHOLE_FUNCTION)


def by_parent(
    assignments: Iterable[Assignment],
) -> tuple[list[Assignment], Mapping[tuple[str, int], list[dict[str, Any]]]]:
    """Separate devices from functions, and group the functions by device.

    Returns
    -------
    tuple
        The assignments of devices; and by type and minor of a device, the entries of its functions.
    """
    devices = []
    functions: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for assignment in assignments:
        kind, minor, identity = parts_of(assignment.uuid)
        if kind not in _DEVICE_OF:
            devices.append(assignment)
            continue
        number = {"minor": int(assignment.tag)} if assignment.tag not in ("", "0") else {}
        functions.setdefault((_DEVICE_OF[kind], minor), []).append({**number, "busID": identity})
    return devices, functions
