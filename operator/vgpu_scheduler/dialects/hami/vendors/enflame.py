"""Enflame GCUs under HAMi: counted by the node's capacity and given out whole."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.allocators import Check, FitRules, WholeCardRule
from vgpu_scheduler.dialects.hami.vendors.base import AllocationAnnotations, Vendor
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, CardsByCapacity
from vgpu_scheduler.dialects.hami.vendors.section import VendorSection
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.model import WHOLE

NAMES = ShareRequests("enflame.com/gcu", default_cores=WHOLE)


def _kind(cards: int) -> CardKind:
    return CardKind(cards, 1, WHOLE, WHOLE)


def gcu(section: VendorSection) -> tuple[Vendor, ...]:
    """Return whole GCUs, as section ``enflame`` of HAMi's configuration names their resource."""
    names = replace(NAMES, count=section.text("resourceNameGCU", NAMES.count))
    return (
        Vendor(
            key="GCU",
            title="Enflame GCU",
            cards=CardsByCapacity((names.count,), _kind, "GCU"),
            claims=names,
            fit=FitRules(Check.IDLE, whole=WholeCardRule.ALWAYS),
            record=AllocationAnnotations(
                "hami.io/enflame-gcu-devices-allocated", "hami.io/enflame-gcu-devices-to-allocate"
            ),
            lock=None,
        ),
    )
