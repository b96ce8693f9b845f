"""Lists of devices, as nodes register them."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.model import Device


def canonical(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Order devices by index, then UUID: plugins list them in random order."""
    return tuple(sorted(devices, key=lambda device: (device.index, device.uuid)))
