"""Koordinator's ecosystem: what koordlet lists of a node's devices, and reads on pods."""

from vgpu_scheduler.dialects.koordinator.codec import decode_allocated, encode_allocated
from vgpu_scheduler.dialects.koordinator.dialect import koordinator_dialect

__all__ = ["decode_allocated", "encode_allocated", "koordinator_dialect"]
