"""Volcano's ecosystem: what its vGPU device plugin writes on nodes and reads on pods."""

from vgpu_scheduler.dialects.volcano.codec import (
    RegisteredCard,
    decode_assignments,
    decode_register,
    encode_assignments,
)
from vgpu_scheduler.dialects.volcano.dialect import VolcanoDialect
from vgpu_scheduler.dialects.volcano.names import VolcanoNames

__all__ = [
    "RegisteredCard",
    "VolcanoDialect",
    "VolcanoNames",
    "decode_assignments",
    "decode_register",
    "encode_assignments",
]
