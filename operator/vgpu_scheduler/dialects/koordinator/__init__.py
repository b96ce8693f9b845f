"""Koordinator's ecosystem: what koordlet lists of a node's devices, and reads on pods."""

from vgpu_scheduler.dialects.koordinator.booked import AllocatedDevice
from vgpu_scheduler.dialects.koordinator.codec import (
    decode_allocated,
    decode_devices,
    encode_allocated,
    fill,
)
from vgpu_scheduler.dialects.koordinator.dialect import koordinator_dialect

__all__ = [
    "AllocatedDevice",
    "decode_allocated",
    "decode_devices",
    "encode_allocated",
    "fill",
    "koordinator_dialect",
]
