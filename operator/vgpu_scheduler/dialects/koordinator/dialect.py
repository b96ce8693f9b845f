"""The Koordinator dialect: from the Device object and the pod's requests to an allocation annotation and back.

NPUs, and nodes with GPUs of other vendors than NVIDIA, are refused by name.
"""

from __future__ import annotations

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.koordinator.allocation import KoordinatorAllocation
from vgpu_scheduler.dialects.koordinator.inventory import KoordinatorInventory
from vgpu_scheduler.dialects.koordinator.names import NAME
from vgpu_scheduler.dialects.koordinator.node_side import KoordinatorNodeSide
from vgpu_scheduler.dialects.koordinator.pods import KoordinatorClaims


def koordinator_dialect() -> Dialect:
    """Return Koordinator's wire format; koordlet reads the allocation from the pod that it starts."""
    return Dialect(NAME, KoordinatorInventory(), KoordinatorClaims(), KoordinatorAllocation(), KoordinatorNodeSide())
