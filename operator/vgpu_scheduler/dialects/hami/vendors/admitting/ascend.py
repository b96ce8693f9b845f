"""Ascend at admission: memory in the sizes of the chip's templates, and chips that come in modules of two."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal, rounded

_VISIBLE = "ASCEND_VISIBLE_DEVICES"
SOFT_POD, SOFT = "huawei.com/vnpu-mode", "hami-core"
"""The annotation of a pod that shares chips softly, and its value."""
MODULE = 2
"""Chips of a module."""


@dataclass(frozen=True, slots=True)
class NpuAdmission:
    """What an entry of ``vnpus.configs`` of HAMi's ``device-config.yaml`` says to its webhook.

    Attributes
    ----------
    key
        HAMi's word for the chip.
    count, memory, cores
        Its resource names.
    templates
        The sizes of memory in which it can be cut, the smallest first, in MiB.
    allocatable, capacity
        What a pod gets of a whole chip, and what that has, in MiB.
    memory_factor
        MiB per unit of the memory resource.
    modules
        It is given out by modules of two.
    overwrite_env
        Hide the chips from containers that ask for none (``overwriteEnv``).
    runtime_class
        The runtime class of pods with chips (``runtimeClassName``).
    """

    key: str
    count: str
    memory: str
    cores: str
    templates: tuple[int, ...]
    allocatable: int
    capacity: int
    memory_factor: int = 1
    modules: bool = False
    overwrite_env: bool = False
    runtime_class: str = ""

    def cut(self, memory: int) -> int:
        """Return the smallest size that has so much memory, in MiB; 0 if there is none."""
        whole = self.allocatable if memory <= self.capacity else 0
        return next((size for size in self.templates if memory <= size), whole)


def npu_rule(chip: NpuAdmission) -> Admit:
    """Return the rules of a chip."""

    def admit(draft: Draft) -> bool:
        count = draft.limit(chip.count)
        if count is None:
            if chip.overwrite_env:
                draft.set_env(_VISIBLE, "")
            return False
        sound = draft.sound(chip.count, chip.memory)
        number = rounded(count)
        if chip.modules and number != 1 and number % MODULE:
            raise Refusal(f"{chip.key} device request must be 1 or 2*n, got {number}")
        if chip.modules and number == 1 and sound:
            draft.set_limit(chip.count, MODULE)
        memory = _memory(draft, number, chip)
        if sound and (draft.unclaimed or draft.limit(chip.memory) is not None):
            draft.set_both(chip.memory, memory)
        draft.use_runtime_class(chip.runtime_class)
        return True

    return admit


def _memory(draft: Draft, number: int, chip: NpuAdmission) -> int:
    """Return the memory of each chip that the container gets, in units of the resource: what is claimed as the size."""
    asked = draft.limit(chip.memory)
    whole = chip.allocatable // chip.memory_factor
    if draft.annotation(SOFT_POD) == SOFT:
        return whole if asked is None else rounded(asked)
    if rounded(draft.limit(chip.cores) or "0") > 0:
        raise Refusal(f"{chip.cores} is only supported in hami-core (soft split) mode")
    if asked is None:
        return whole
    memory = chip.cut(rounded(asked) * chip.memory_factor)
    if memory <= 0:
        raise Refusal(f"{chip.memory} {rounded(asked)} is invalid")
    if number > 1 and memory != chip.allocatable:
        raise Refusal("vNPU not supported for multiple devices")
    return max(memory // chip.memory_factor, 1)
