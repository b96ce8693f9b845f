"""Vastai accelerators under HAMi: registered card by card, or die by die, and given out by number."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.allocators import Check, FitRules, Selection, WholeCardRule
from vgpu_scheduler.dialects.hami.codec import RegisteredDevice
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.registered import Registered, as_written
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import CountRequests
from vgpu_scheduler.model import WHOLE, Device

NAMES = CountRequests("vastaitech.com/va")
_NO_GROUP = -1


def _device(card: RegisteredDevice, vendor: str) -> Device:
    """Return a card or a die; the dies of a card are a group."""
    group = _NO_GROUP
    if card.custom_info.get("DeviceStrategy") == "die":
        aic = str(card.custom_info.get("AIC", ""))
        group = int(aic) if aic.isascii() and aic.isdigit() and len(aic) < 10 else _NO_GROUP
    return replace(as_written(replace(card, devcore=WHOLE), vendor), group=group)


def vastai(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Vastai's cards, as section ``vastai`` of HAMi's configuration names their resource."""
    names = replace(NAMES, count=section.text("resourceCountName", NAMES.count))
    return (
        Vendor(
            key="Vastai",
            title="Vastai accelerator",
            cards=Registered("hami.io/node-va-register", _device),
            claims=names,
            rules=RuleKeys(uuids=(("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),)),
            fit=FitRules(
                Check.SLOTS | Check.IDLE_GROUP,
                whole=WholeCardRule.SINGLE,
                selection=Selection.GROUPED,
                choice_weight=1.0,
            ),
            record=AllocationAnnotations("hami.io/Vastai-devices-allocated", "hami.io/Vastai-devices-to-allocate"),
        ),
    )
