"""Iluvatar cards under HAMi: one kind per chip, registered in the colon format, shared by memory and compute."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.base import Record, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.registered import Registered
from vgpu_scheduler.dialects.hami.vendors.shares import ShareNames

UNIT = 256
"""MiB of a unit of the memory resource."""

CHIPS = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")


def chip_names(chip: str) -> ShareNames:
    """Return the resource names of a chip, as HAMi's chart configures them."""
    name = f"iluvatar.ai/{chip}"
    return ShareNames(f"{name}-vgpu", f"{name}.vMem", cores=f"{name}.vCore", memory_factor=UNIT)


def iluvatar(chip: str, names: ShareNames | None = None) -> Vendor:
    """Return the cards of one chip under the names that are configured."""
    return Vendor(
        key=chip,
        title=f"Iluvatar {chip}",
        cards=Registered(f"hami.io/node-{chip}-register"),
        claims=names or chip_names(chip),
        rules=RuleKeys(uuids=((f"hami.io/use-{chip}-uuid", f"hami.io/no-use-{chip}-uuid"),)),
        record=Record(f"hami.io/{chip}-devices-allocated", f"hami.io/{chip}-devices-to-allocate"),
    )
