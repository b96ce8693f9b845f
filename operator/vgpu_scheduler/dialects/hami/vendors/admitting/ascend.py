"""Ascend at admission: memory in the sizes of the chip's templates, and chips that come in modules of two."""

from __future__ import annotations

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal
from vgpu_scheduler.dialects.hami.vendors.ascend_names import MODULE, SOFT, SOFT_POD, Chip, NpuNames
from vgpu_scheduler.kube import to_int

_VISIBLE = "ASCEND_VISIBLE_DEVICES"


def npu_rule(chip: Chip) -> Admit:
    """Return the rules of a chip."""
    names = chip.names

    def admit(draft: Draft) -> bool:
        count = draft.limit(names.count)
        if count is None:
            if chip.overwrite_env:
                draft.set_env(_VISIBLE, "")
            return False
        sound = draft.sound(names.count, names.memory)
        number = to_int(count)
        if chip.modules and number != 1 and number % MODULE:
            raise Refusal(f"{chip.key} device request must be 1 or 2*n, got {number}")
        if chip.modules and number == 1 and sound:
            draft.set_limit(names.count, MODULE)
        memory = _memory(draft, number, chip, names)
        if sound and (draft.unclaimed or draft.limit(names.memory) is not None):
            draft.set_both(names.memory, memory)
        draft.use_runtime_class(chip.runtime_class)
        return True

    return admit


def _memory(draft: Draft, number: int, chip: Chip, names: NpuNames) -> int:
    """Return the memory of each chip that the container gets, in units of the resource: what is claimed as the size."""
    asked = draft.limit(names.memory)
    whole = chip.allocatable // chip.memory_factor
    if draft.annotation(SOFT_POD) == SOFT:
        return whole if asked is None else to_int(asked)
    if to_int(draft.limit(names.cores) or "0") > 0:
        raise Refusal(f"{names.cores} is only supported in hami-core (soft split) mode")
    if asked is None:
        return whole
    memory = _cut(chip, to_int(asked) * chip.memory_factor)
    if memory <= 0:
        raise Refusal(f"{names.memory} {to_int(asked)} is invalid")
    if number > 1 and memory != chip.allocatable:
        raise Refusal("vNPU not supported for multiple devices")
    return max(memory // chip.memory_factor, 1)


def _cut(chip: Chip, memory: int) -> int:
    """Return the memory of the smallest template that has so much, or of a whole chip, in MiB; 0 if there is none."""
    whole = chip.allocatable if memory <= chip.capacity else 0
    return next((template.memory for template in chip.templates if memory <= template.memory), whole)
