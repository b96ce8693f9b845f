"""What Koordinator's devices are booked under."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.model import Amounts


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


def parts_of(name: str) -> tuple[str, int, str]:
    """Return the type, the minor and the id in the name of a device; of a virtual function, the minor of its device."""
    kind, minor, identity = name.split("/", 2)
    return kind, int(minor), identity
