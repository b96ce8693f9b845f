"""Moore Threads at admission: several cards are whole ones, and one is cut in fixed sizes."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal, exact
from vgpu_scheduler.kube import to_int

CORES, MEMORY = 16, 96
"""What a whole card has, in units of the resources."""
SIZES = (2, 4, 8, 16, 32, 64, MEMORY)
"""Units of memory that a part of a card may have."""
COUNT_ANNOTATION = "mthreads.com/request-gpu-num"


def mthreads_rule(count: str, memory: str, cores: str) -> Admit:
    """Return the rules under these resource names."""

    def admit(draft: Draft) -> bool:
        asked = draft.either(count)
        if asked is None:
            return False
        number = to_int(asked)
        if number <= 0:
            raise Refusal(f"{count} must be greater than 0")
        if not draft.sound(count):
            return True
        if number > 1:
            draft.set_limit(cores, CORES * number)
            draft.set_limit(memory, MEMORY * number)
            draft.annotate(COUNT_ANNOTATION, str(number))
            return True
        part = draft.either(memory)
        if part is None:
            if draft.unclaimed:
                draft.set_limit(cores, CORES)
                draft.set_limit(memory, MEMORY)
        elif exact(part) not in SIZES:
            raise Refusal(f"sGPU memory request value is invalid, valid values are {list(SIZES)}")
        return True

    return admit
