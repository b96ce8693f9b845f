"""A dialect: one ecosystem's wire format, composed of four small interfaces."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.dialects.allocation import Allocation
from vgpu_scheduler.dialects.claims import Claims
from vgpu_scheduler.dialects.inventory import Inventory
from vgpu_scheduler.dialects.node_side import NodeSide


@dataclass(frozen=True)
class Dialect:
    """One ecosystem's wire format.

    Attributes
    ----------
    name
        Its name in settings and messages.
    inventory
        Reads the devices of nodes.
    claims
        Reads the claims of pods.
    allocation
        Writes placements to pods, and reads back what pods hold.
    node_side
        Describes how its node side finds a pod, and how it reports the result.
    """

    name: str
    inventory: Inventory
    claims: Claims
    allocation: Allocation
    node_side: NodeSide
