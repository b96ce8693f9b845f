"""Plain values that every room shares: devices, claims, placements, reasons, decisions."""

from vgpu_scheduler.model.decision import Decision, NearMiss, NodeVerdict, Outcome
from vgpu_scheduler.model.devices import (
    Amounts,
    Claim,
    ContainerClaims,
    ContainerKind,
    Device,
    Dimension,
    PodClaims,
    claims_devices,
)
from vgpu_scheduler.model.placement import (
    NO_USAGE,
    Assignment,
    Charges,
    ContainerAssignments,
    Placement,
    Usage,
    add,
    charges,
    kinds_of,
    peak,
)
from vgpu_scheduler.model.reasons import CardReason, Hint

__all__ = [
    "NO_USAGE",
    "Amounts",
    "Assignment",
    "CardReason",
    "Charges",
    "Claim",
    "ContainerAssignments",
    "ContainerClaims",
    "ContainerKind",
    "Decision",
    "Device",
    "Dimension",
    "Hint",
    "NearMiss",
    "NodeVerdict",
    "Outcome",
    "Placement",
    "PodClaims",
    "Usage",
    "add",
    "charges",
    "claims_devices",
    "kinds_of",
    "peak",
]
