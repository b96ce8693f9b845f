"""What the hint on a pod asks of its devices: the scope of the topology tree that its GPUs have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.koordinator.names import GPU, HINT_ANNOTATION, RATIO
from vgpu_scheduler.kernels import BY_SCORE, MACHINE, NUMA_NODE, SWITCH
from vgpu_scheduler.model import WHOLE, Claim, quoted

_SCOPE: Final = "requiredTopologyScope"
_LEVELS: Final[Mapping[str, int]] = MappingProxyType({
    "Node": MACHINE,
    "NUMANode": NUMA_NODE,
    "PCIe": SWITCH,
})  # fmt: skip


def required_scope(annotations: Mapping[str, str]) -> int:
    """Return the level of the scope that all GPUs of a pod must be in, or ``BY_SCORE`` where the pod asks for none.

    Raises
    ------
    ClaimError
        If the hint cannot be read, or asks for something else.
    """
    text = annotations.get(HINT_ANNOTATION)
    if text is None:
        return BY_SCORE
    try:
        hints = json.loads(text)
    except (ValueError, RecursionError):
        raise ClaimError(f"annotation {HINT_ANNOTATION} is not JSON: remove it") from None
    level = BY_SCORE
    for kind, fields in _fields(hints, "it").items():
        for name, value in _fields(fields, quoted(kind)).items():
            if (kind, name) != (GPU, _SCOPE):
                where = f"{quoted(kind)}.{quoted(name)}"
                raise ClaimError(f"annotation {HINT_ANNOTATION}: {where} is not followed by this version: remove it")
            level = _level(value)
    return level


def takes_gpus_whole(claim: Claim) -> bool:
    """Tell whether a claim on GPUs takes them whole."""
    return claim.amounts[RATIO] >= WHOLE


def check_scope(annotations: Mapping[str, str], claims: tuple[Claim, ...]) -> None:
    """Refuse a hint that is not followed, and a scope for shares of several GPUs: Koordinator never finds one.

    Raises
    ------
    ClaimError
        If there is one; the message names it.
    """
    if required_scope(annotations) == BY_SCORE:
        return
    if any(claim.vendor == GPU and claim.count > 1 and not takes_gpus_whole(claim) for claim in claims):
        raise ClaimError(
            f"annotation {HINT_ANNOTATION}: {_SCOPE} is not followed for shares of several GPUs: "
            "ask for whole ones, or for a share of one"
        )


def _fields(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ClaimError(f"annotation {HINT_ANNOTATION}: {where} is not an object: remove it")
    return value


def _level(word: object) -> int:
    level = _LEVELS.get(word) if isinstance(word, str) else None
    if level is None:
        raise ClaimError(
            f"annotation {HINT_ANNOTATION}: {_SCOPE}: {quoted(word)} is no scope that holds GPUs: "
            f"write one of {', '.join(_LEVELS)}"
        )
    return level
