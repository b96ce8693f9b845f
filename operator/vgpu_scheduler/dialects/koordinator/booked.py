"""The names under which Koordinator's devices are booked."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.model import Amounts


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device of an allocation: its type, minor, id (empty in old allocations), and amounts."""

    type: str
    minor: int
    id: str
    amounts: Amounts


def device_name(kind: str, minor: int, identity: str) -> str:
    """Return the name under which a device is booked.

    Koordinator identifies a device by type and minor; the name also has the id, because the annotation repeats it, and
    because a replaced card is another card.
    """
    return f"{kind}/{minor}/{identity}"


def id_of(name: str) -> str:
    """Return the id from the name of a device, which is how people are shown it; it may be empty."""
    return name.split("/", 2)[-1]


def parts_of(name: str) -> tuple[str, int, str]:
    """Return type, minor and id from the name of a device; for a virtual function the minor is that of its device."""
    kind, minor, identity = name.split("/", 2)
    return kind, int(minor), identity
