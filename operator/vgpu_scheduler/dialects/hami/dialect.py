"""The HAMi dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations."""

from __future__ import annotations

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.hami.allocation import HamiAllocation
from vgpu_scheduler.dialects.hami.claims import HamiClaims
from vgpu_scheduler.dialects.hami.inventory import HamiInventory
from vgpu_scheduler.dialects.hami.names import NAME
from vgpu_scheduler.dialects.hami.node_side import HamiNodeSide
from vgpu_scheduler.dialects.hami.vendors import Vendor, vendors


def hami_dialect(makers: tuple[Vendor, ...] | None = None) -> Dialect:
    """Return HAMi's wire format.

    Parameters
    ----------
    makers
        The makers' cards, in the order in which their claims and devices are read; all of them unless given.
    """
    makers = vendors() if makers is None else makers
    inventory = HamiInventory(makers)
    claims = HamiClaims(makers, inventory.device_resources)
    return Dialect(NAME, inventory, claims, HamiAllocation(makers, claims), HamiNodeSide(makers))
