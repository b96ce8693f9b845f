"""How amounts are shown to people: whole MiB of memory and whole percent of a card's compute.

What is asked for, needed or used is rounded up; what is free, what a card has and what a limit allows is rounded down.
So no message says that something fits which does not.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

from vgpu_scheduler.model.devices import MIB, WHOLE, Device

_BYTES: Final = "bytes"


def mib_needed(amount: int) -> int:
    """Return bytes that are asked for, needed or used in MiB, rounded up."""
    return -(-amount // MIB)


def mib_free(amount: int) -> int:
    """Return bytes that are free, that a card has or that a limit allows in MiB, rounded down."""
    return amount // MIB


def percent_needed(amount: int, units: int) -> int:
    """Return units of compute that are asked for in percent of a card that has ``units``, rounded up."""
    return -(-amount * WHOLE // units)


def percent_used(device: Device, amount: int, column: int) -> int:
    """Return compute that is asked for, needed or used in percent of a device, rounded up.

    Parameters
    ----------
    column
        The index of the dimension of compute.
    """
    return ceil(device.compute_percent(amount, device.total[column]))


def percent_free(device: Device, amount: int, column: int) -> int:
    """Return compute that is free in percent of a device, rounded down."""
    return floor(device.compute_percent(amount, device.total[column]))


def shown_unit(unit: str) -> str:
    """Return the unit in which amounts of a dimension are shown."""
    return "MiB" if unit == _BYTES else unit


def shown_unit_size(unit: str) -> int:
    """Return how much of a dimension's unit one of the shown unit is."""
    return MIB if unit == _BYTES else 1


def shown_needed(amount: int, unit: str) -> int:
    """Return an amount of a dimension that is asked for, needed or used in the shown unit, rounded up."""
    return -(-amount // shown_unit_size(unit))


def shown_free(amount: int, unit: str) -> int:
    """Return an amount of a dimension that is free, or that a card has, in the shown unit, rounded down."""
    return amount // shown_unit_size(unit)
