"""Iluvatar cards under HAMi: one kind per chip, registered in the colon format, shared by memory and compute."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.draft import Admit, ContainerDraft
from vgpu_scheduler.dialects.hami.vendors.registered import Registered
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.kube import to_int
from vgpu_scheduler.model import WHOLE

_CONTAINER = "SOL_CONTINER_NAME"  # as the runtime spells it
UNIT = 256
"""MiB of a unit of the memory resource."""

CHIPS = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")


def iluvatar(config: VendorSection) -> tuple[Vendor, ...]:
    """Return a vendor for each chip that is listed under ``iluvatars``, by default those of HAMi's chart."""
    listed = config.sections("iluvatars") or tuple(VendorSection({"commonWord": chip}) for chip in CHIPS)
    return tuple(map(_chip, listed))


def _chip(section: VendorSection) -> Vendor:
    section.ignore("chipName")
    chip = section.required("commonWord")
    name = f"iluvatar.ai/{chip}"
    names = ShareRequests(f"{name}-vgpu", f"{name}.vMem", cores=f"{name}.vCore", memory_factor=UNIT).configured(section)
    return Vendor(
        key=chip,
        title=f"Iluvatar {chip}",
        cards=Registered(f"hami.io/node-{chip}-register"),
        claims=names,
        rules=RuleKeys(uuids=((f"hami.io/use-{chip}-uuid", f"hami.io/no-use-{chip}-uuid"),)),
        record=AllocationAnnotations(f"hami.io/{chip}-devices-allocated", f"hami.io/{chip}-devices-to-allocate"),
        admit=iluvatar_rule(names.count, names.cores),
        sums_cores=True,
    )


def iluvatar_rule(count: str, cores: str) -> Admit:
    """Return the admission rules for these resource names."""

    def admit(draft: ContainerDraft) -> bool:
        asked = draft.limit(count)
        if asked is None:
            return False
        if draft.sound(count) and to_int(asked) > 1:
            draft.set_limit(cores, WHOLE * to_int(asked))
        draft.set_env(_CONTAINER, draft.name)
        return True

    return admit
