"""NVIDIA at admission: a default count, whole cards with all their compute, and what HAMi's runtime reads."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.dialects.hami.vendors.admitting.draft import Admit, Draft, Refusal
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import NvidiaNames
from vgpu_scheduler.kube import to_int

_WHOLE = 100
_PRIORITY = "CUDA_TASK_PRIORITY"
_CORE_POLICY = "GPU_CORE_UTILIZATION_POLICY"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_NO_POLICY = ("", "default")


@dataclass(frozen=True, slots=True)
class NvidiaAdmission:
    """What section ``nvidia`` of HAMi's ``device-config.yaml`` says to its webhook.

    Attributes
    ----------
    default_count
        Cards for a container that names memory or compute only (``defaultGPUNum``); 0 for none.
    overwrite_env
        Hide the cards from containers that ask for none, whatever their image says (``overwriteEnv``).
    core_policy
        How HAMi's runtime limits compute (``gpuCorePolicy``): ``force``, ``disable``, or ``default``.
    runtime_class
        The runtime class of pods with cards (``runtimeClassName``).
    """

    default_count: int = 1
    overwrite_env: bool = False
    core_policy: str = ""
    runtime_class: str = ""


def nvidia_rule(names: NvidiaNames, options: NvidiaAdmission) -> Admit:
    """Return NVIDIA's rules."""

    def admit(draft: Draft) -> bool:
        share = draft.either(names.memory_percent)
        percent = None if share is None else to_int(share)
        if percent is not None and not 0 <= percent <= _WHOLE:
            raise Refusal(
                f"invalid {names.memory_percent} value {percent} in container {draft.name}: "
                f"must be an integer between 0 and {_WHOLE}"
            )
        priority = draft.limit(names.priority)
        if priority is not None:
            draft.set_env(_PRIORITY, str(to_int(priority)))
        if options.core_policy not in _NO_POLICY:
            draft.set_env(_CORE_POLICY, options.core_policy)
        found = draft.limit(names.count) is not None
        if not found and options.default_count and any(draft.limit(name) is not None for name in names.amounts):
            if draft.request(names.count) is None:
                draft.add_limit(names.count, options.default_count)
            found = True
        if names.whole_is_exclusive and _whole(draft, percent, names):
            if draft.unclaimed and draft.either(names.cores) is None:
                draft.add_limit(names.cores, _WHOLE)
            found = True
        if found:
            draft.use_runtime_class(options.runtime_class)
        elif options.overwrite_env:
            draft.set_env(_VISIBLE, "none")
        return found

    return admit


def _whole(draft: Draft, percent: int | None, names: NvidiaNames) -> bool:
    """Tell whether whole cards are asked for, and nothing is said of compute but what an earlier review added."""
    if draft.either(names.count) is None or draft.request(names.cores) is not None:
        return False
    if draft.limit(names.cores) not in (None, str(_WHOLE)):
        return False
    return draft.either(names.memory) is None if percent is None else percent == _WHOLE
