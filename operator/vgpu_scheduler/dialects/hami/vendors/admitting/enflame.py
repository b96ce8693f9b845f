"""Enflame slices (DRS) at admission: what is asked for is both limit and request."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal
from vgpu_scheduler.kube import to_int

_WHOLE = 100


def slices_rule(slices: str, memory: str, cores: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        by_needs = () if draft.either(slices) is not None else (memory, cores)
        asked = {name: text for name in (slices, *by_needs) if (text := draft.either(name)) is not None}
        for name, text in asked.items():
            if name == cores and not 0 < to_int(text) <= _WHOLE:
                raise Refusal(f"{name} must be in range (0,{_WHOLE}]")
            if to_int(text) <= 0:
                raise Refusal(f"{name} must be greater than 0")
        for name, text in asked.items():
            if draft.limit(name) is None:
                draft.add_limit(name, text)
            elif draft.request(name) is None:
                draft.set_both(name, text)
        return bool(asked)

    return admit
