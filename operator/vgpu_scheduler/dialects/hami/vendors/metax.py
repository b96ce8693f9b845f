"""MetaX GPUs under HAMi: counted by the node's capacity and given out whole."""

from __future__ import annotations

from dataclasses import replace

from vgpu_scheduler.allocators import FitRules, Selection
from vgpu_scheduler.dialects.hami.vendors.base import Record, Vendor
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, Counted
from vgpu_scheduler.dialects.hami.vendors.section import Section
from vgpu_scheduler.dialects.hami.vendors.shares import ShareNames

_WHOLE = 100
_MEMORY = 65536
NAMES = ShareNames("metax-tech.com/gpu", default_cores=_WHOLE)


def _kind(cards: int) -> CardKind:
    return CardKind(cards, 1, _MEMORY, _WHOLE)


def metax_gpu(section: Section) -> tuple[Vendor, ...]:
    """Return whole GPUs, as section ``metax`` of HAMi's configuration names their resource."""
    names = replace(NAMES, count=section.text("resourceCountName", NAMES.count))
    return (
        Vendor(
            key="Metax-GPU",
            title="MetaX GPU",
            cards=Counted((names.count,), _kind, "metax"),
            claims=names,
            fit=FitRules(selection=Selection.SAME),
            record=Record("hami.io/metax-gpu-devices-allocated", "hami.io/metax-gpu-devices-to-allocate"),
            lock="",
        ),
    )
