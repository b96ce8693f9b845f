"""Wire formats of the ecosystems that node agents and pods speak."""

from vgpu_scheduler.dialects.hami import CodecError, HamiDialect, NvidiaNames
from vgpu_scheduler.dialects.hami.claims import ClaimError
from vgpu_scheduler.dialects.hami.dialect import placement_usage
from vgpu_scheduler.dialects.hami.rules import DeviceRules

__all__ = ["ClaimError", "CodecError", "DeviceRules", "HamiDialect", "NvidiaNames", "placement_usage"]
