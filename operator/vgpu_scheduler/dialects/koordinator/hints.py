"""The device hint of a pod: which devices, how many, and within which scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.fixes import RequestWarning
from vgpu_scheduler.dialects.koordinator.names import DEVICE_TYPES, GPU, HINT_ANNOTATION, RATIO
from vgpu_scheduler.dialects.koordinator.pod_annotations import (
    annotation_fields,
    fields_of,
    refuse_unknown,
    selector_of,
    word_of,
)
from vgpu_scheduler.dialects.values import to_be_removed
from vgpu_scheduler.kernels import BY_SCORE, MACHINE, NUMA_NODE, SWITCH
from vgpu_scheduler.kube import LabelSelector
from vgpu_scheduler.model import WHOLE, Claim, quoted

_SCOPE, _SELECTOR, _FUNCTIONS = "requiredTopologyScope", "selector", "vfSelector"
_STRATEGY, _EXCLUSIVE = "allocateStrategy", "exclusivePolicy"
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    kind: (_SELECTOR, _FUNCTIONS, _EXCLUSIVE, _SCOPE if kind == GPU else _STRATEGY) for kind in DEVICE_TYPES
})  # fmt: skip
_LEVELS: Final[Mapping[str, int]] = MappingProxyType({
    "Node": MACHINE,
    "NUMANode": NUMA_NODE,
    "PCIe": SWITCH,
})  # fmt: skip
_EVERY, _AS_COUNT = "ApplyForAll", "RequestsAsCount"
_DEVICE_LEVEL, _SWITCH_LEVEL = "DeviceLevel", "PCIeLevel"


@dataclass(frozen=True, slots=True)
class DeviceHint:
    """A pod's hint for the devices of one type.

    Attributes
    ----------
    scope
        The level of the scope that all devices must be in, or ``BY_SCORE`` for no requirement.
    selector
        Selects devices by their labels; None for all.
    functions
        Selects virtual functions by the labels of their group; None if the pod wants none.
    every
        Whether the request is for each selected device of the node.
    each
        The amount per device if the pod's request is the number of devices, else None.
    exclusive
        The exclusive policy.
    """

    scope: int = BY_SCORE
    selector: LabelSelector | None = None
    functions: LabelSelector | None = None
    every: bool = False
    each: int | None = None
    exclusive: str = ""


NO_HINT: Final = DeviceHint()


def read_hints(annotations: Mapping[str, str]) -> Mapping[str, DeviceHint]:
    """Return the hints of a pod by device type.

    Raises
    ------
    ClaimError
        If the hint is malformed or asks for something unsupported.
    """
    if HINT_ANNOTATION not in annotations:
        return {}
    by_type = annotation_fields(annotations, HINT_ANNOTATION, DEVICE_TYPES)
    return {kind: _hint(kind, fields_of(value, HINT_ANNOTATION, quoted(kind))) for kind, value in by_type.items()}


def takes_gpus_whole(claim: Claim) -> bool:
    """Tell whether a claim on GPUs takes them whole."""
    return claim.amounts[RATIO] >= WHOLE


def check_hints(hints: Mapping[str, DeviceHint], claims: tuple[Claim, ...]) -> None:
    """Refuse hints that Koordinator cannot satisfy: virtual functions of GPUs, and a scope for shares of several GPUs.

    Raises
    ------
    ClaimError
        If there is such a hint; the message names it.
    """
    hint, claim = hints.get(GPU, NO_HINT), next((claim for claim in claims if claim.vendor == GPU), None)
    if claim is None:
        return
    if hint.functions is not None:
        raise to_be_removed(HINT_ANNOTATION, f": {quoted(GPU)}.{quoted(_FUNCTIONS)} is not followed")
    if hint.scope != BY_SCORE and claim.count > 1 and not takes_gpus_whole(claim):
        raise ClaimError(
            f"annotation {HINT_ANNOTATION}: {_SCOPE} is not supported for shares of several GPUs: "
            "ask for whole ones, or for a share of one"
        )


def suspicious_hints(hints: Mapping[str, DeviceHint]) -> Iterator[RequestWarning]:
    """Yield warnings about hints without effect, as in Koordinator."""
    for kind, hint in hints.items():
        if hint.exclusive == _SWITCH_LEVEL or (hint.exclusive and hint.each is None):
            where = f"annotation {HINT_ANNOTATION}: {quoted(kind)}.{quoted(_EXCLUSIVE)}"
            yield RequestWarning(f"{where}: {hint.exclusive} has no effect, as in Koordinator")


def _hint(kind: str, fields: Mapping[str, object]) -> DeviceHint:
    refuse_unknown(fields, _FIELDS[kind], HINT_ANNOTATION, f"{quoted(kind)}.")
    selector, functions = (
        selector_of(fields.get(name), HINT_ANNOTATION, f"{quoted(kind)}.{quoted(name)}")
        for name in (_SELECTOR, _FUNCTIONS)
    )
    strategy, exclusive = (
        word_of(fields.get(name), words, HINT_ANNOTATION, f"{quoted(kind)}.{quoted(name)}")
        for name, words in ((_STRATEGY, (_EVERY, _AS_COUNT)), (_EXCLUSIVE, (_DEVICE_LEVEL, _SWITCH_LEVEL)))
    )
    return DeviceHint(
        BY_SCORE if fields.get(_SCOPE, "") in ("", None) else _level(fields[_SCOPE]),
        selector,
        functions,
        every=strategy == _EVERY,
        each=(WHOLE if exclusive == _DEVICE_LEVEL else 1) if strategy == _AS_COUNT else None,
        exclusive=exclusive,
    )


def _level(word: object) -> int:
    level = _LEVELS.get(word) if isinstance(word, str) else None
    if level is None:
        raise ClaimError(
            f"annotation {HINT_ANNOTATION}: {_SCOPE}: {quoted(word)} is not a scope that contains GPUs: "
            f"write one of {', '.join(_LEVELS)}"
        )
    return level
