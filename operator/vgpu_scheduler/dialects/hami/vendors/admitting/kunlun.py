"""Kunlunxin slices (vXPU) at admission: memory in the sizes that a card can be cut in."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft
from vgpu_scheduler.kube import to_int

SIZES = (24576, 49152, 98304)
"""MiB of a slice; the last is a whole card."""


def vxpu_rule(count: str, memory: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        if draft.limit(count) is None:
            return False
        asked = draft.limit(memory)
        if asked is not None and draft.sound(memory):
            draft.set_both(memory, next((size for size in SIZES if to_int(asked) <= size), SIZES[-1]))
        return True

    return admit
