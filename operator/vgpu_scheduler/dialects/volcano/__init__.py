"""Volcano's ecosystem: what its vGPU device plugin writes on nodes and reads on pods."""

from vgpu_scheduler.dialects.hami.codec import decode_assignments
from vgpu_scheduler.dialects.volcano.arguments import parse_binpack_arguments
from vgpu_scheduler.dialects.volcano.config import configured_requests
from vgpu_scheduler.dialects.volcano.dialect import volcano_dialect
from vgpu_scheduler.dialects.volcano.names import VolcanoRequests
from vgpu_scheduler.dialects.volcano.node_side import PluginVersion

__all__ = [
    "PluginVersion",
    "VolcanoRequests",
    "configured_requests",
    "decode_assignments",
    "parse_binpack_arguments",
    "volcano_dialect",
]
