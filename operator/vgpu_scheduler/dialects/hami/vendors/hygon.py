"""Hygon DCUs under HAMi: registered in the colon format, shared by memory and compute."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.base import Record, RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.registered import Registered
from vgpu_scheduler.dialects.hami.vendors.shares import ShareNames

NAMES = ShareNames("hygon.com/dcunum", "hygon.com/dcumem", cores="hygon.com/dcucores", default_cores=100)


def hygon(names: ShareNames = NAMES) -> Vendor:
    """Return Hygon's cards under the names that are configured."""
    return Vendor(
        key="DCU",
        title="Hygon DCU",
        cards=Registered("hami.io/node-dcu-register"),
        claims=names,
        rules=RuleKeys(
            "hygon.com/use-dcutype",
            "hygon.com/nouse-dcutype",
            (("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),),
        ),
        record=Record("hami.io/dcu-devices-allocated", "hami.io/dcu-devices-to-allocate"),
    )
