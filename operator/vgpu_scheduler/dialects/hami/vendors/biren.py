"""Biren GPUs under HAMi: registered, and given out whole."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.allocators import Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.registered import Registered, as_written
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import CountRequests
from vgpu_scheduler.model import WHOLE, Device

NAMES = CountRequests("birentech.com/gpu")


def _device(card: RegisteredDevice, vendor: str) -> Device:
    return as_written(replace(card, devcore=WHOLE), vendor)


def biren(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Biren's cards, as section ``biren`` of HAMi's configuration names their resource."""
    names = replace(NAMES, count=section.text("resourceCountName", NAMES.count))
    return (
        Vendor(
            key="Biren",
            title="Biren GPU",
            cards=Registered("hami.io/node-biren-register", _device),
            claims=names,
            rules=RuleKeys(uuids=(("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),)),
            fit=FitRules(Check.SLOTS, whole=WholeCardRule.SINGLE),
            record=AllocationAnnotations("hami.io/Biren-devices-allocated", "hami.io/Biren-devices-to-allocate"),
        ),
    )
