"""Hygon DCUs under HAMi: registered in the colon format, shared by memory and compute."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.registered import Registered
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests

NAMES = ShareRequests("hygon.com/dcunum", "hygon.com/dcumem", cores="hygon.com/dcucores", default_cores=100)


def hygon(section: VendorSection) -> tuple[Vendor, ...]:
    """Return Hygon's cards, as section ``hygon`` of HAMi's configuration names their resources."""
    names = replace(NAMES.configured(section), memory_factor=section.factor("memoryFactor"))
    return (
        Vendor(
            key="DCU",
            title="Hygon DCU",
            cards=Registered("hami.io/node-dcu-register"),
            claims=names,
            rules=RuleKeys(
                "hygon.com/use-dcutype",
                "hygon.com/nouse-dcutype",
                (("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),),
            ),
            record=AllocationAnnotations("hami.io/dcu-devices-allocated", "hami.io/dcu-devices-to-allocate"),
            found="It looks for a pod of its node that is allocating, whichever pod holds the node's lock, and releases"
            " the lock",
        ),
    )
