"""MetaX GPUs under HAMi: counted by the node's capacity and given out whole."""

from __future__ import annotations

from vgpu_scheduler.allocators import FitRules, Selection
from vgpu_scheduler.dialects.hami.vendors.base import Record, Vendor
from vgpu_scheduler.dialects.hami.vendors.counted import CardKind, Counted
from vgpu_scheduler.dialects.hami.vendors.shares import ShareNames

_WHOLE = 100
_MEMORY = 65536
GPU_NAMES = ShareNames("metax-tech.com/gpu", default_cores=_WHOLE)


def _kind(cards: int) -> CardKind:
    return CardKind(cards, 1, _MEMORY, _WHOLE)


def metax_gpu(names: ShareNames = GPU_NAMES) -> Vendor:
    """Return whole GPUs under the names that are configured."""
    return Vendor(
        key="Metax-GPU",
        title="MetaX GPU",
        cards=Counted((names.count,), _kind, "metax"),
        claims=names,
        fit=FitRules(selection=Selection.SAME),
        record=Record("hami.io/metax-gpu-devices-allocated", "hami.io/metax-gpu-devices-to-allocate"),
        lock="",
    )
