"""The HAMi dialect: from Kubernetes objects to devices, claims and usage, and from a placement to its annotations."""

from __future__ import annotations

from vgpu_scheduler.dialects.dialect import Dialect
from vgpu_scheduler.dialects.hami.allocation import HamiAllocation
from vgpu_scheduler.dialects.hami.claims import HamiClaims
from vgpu_scheduler.dialects.hami.inventory import HamiInventory
from vgpu_scheduler.dialects.hami.names import NAME
from vgpu_scheduler.dialects.hami.node_side import HamiNodeSide
from vgpu_scheduler.dialects.hami.vendors import Vendor, vendors


def hami_dialect(listed: tuple[Vendor, ...] | None = None) -> Dialect:
    """Return HAMi's wire format.

    Parameters
    ----------
    listed
        The vendors, in the order in which their claims and devices are read; all by default.
    """
    listed = vendors() if listed is None else listed
    inventory = HamiInventory(listed)
    claims = HamiClaims(listed, inventory.device_resources)
    return Dialect(NAME, inventory, claims, HamiAllocation(listed, claims), HamiNodeSide(listed))
