"""Wire formats of the ecosystems that node agents and pods speak."""

from vgpu_scheduler.dialects.base import (
    ClaimError,
    CodecError,
    Dialect,
    Inventory,
    Obeyed,
    RegistrationError,
    Scorers,
    placement_usage,
)
from vgpu_scheduler.dialects.hami import HamiDialect, NvidiaNames, vendors
from vgpu_scheduler.dialects.koordinator import KoordinatorDialect
from vgpu_scheduler.dialects.node_side import LockValue, NodeLock, NodeSide
from vgpu_scheduler.dialects.volcano import VolcanoDialect, VolcanoNames

__all__ = [
    "ClaimError",
    "CodecError",
    "Dialect",
    "HamiDialect",
    "Inventory",
    "KoordinatorDialect",
    "LockValue",
    "NodeLock",
    "NodeSide",
    "NvidiaNames",
    "Obeyed",
    "RegistrationError",
    "Scorers",
    "VolcanoDialect",
    "VolcanoNames",
    "placement_usage",
    "vendors",
]
