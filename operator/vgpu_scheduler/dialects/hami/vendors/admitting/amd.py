"""AMD at admission: compute must be a percentage."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal, exact

_WHOLE = 100


def amd_rule(count: str, memory: str, cores: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        compute = draft.limit(cores)
        if draft.limit(count) is not None and compute is not None and not 1 <= (exact(compute) or 0) <= _WHOLE:
            raise Refusal(f"{cores} must be an integer percentage between 1 and {_WHOLE}")
        return any(draft.limit(name) is not None for name in (count, memory, cores))

    return admit
