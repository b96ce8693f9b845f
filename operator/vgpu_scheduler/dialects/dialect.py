"""What a dialect is: one ecosystem's wire format, joined from four small interfaces."""

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
        What settings and messages call it.
    inventory
        Which devices a node has.
    claims
        What a pod asks for.
    allocation
        What is written for a placement, and what a pod holds.
    node_side
        How its node side finds a pod, and what proves that it has answered.
    """

    name: str
    inventory: Inventory
    claims: Claims
    allocation: Allocation
    node_side: NodeSide
