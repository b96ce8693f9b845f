"""What the annotations of Koordinator's pods say beside their requests, in plain Python. Slow and obvious."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.naive import scopes
from tests.naive.koordinator import Ask, Obj
from tests.naive.koordinator_quirks import KoordinatorQuirk

from vgpu_scheduler.kube import QuantityError, to_int

PREFIX = "scheduling.koordinator.sh/"
HINT, JOINT, SPEC = PREFIX + "device-allocate-hint", PREFIX + "device-joint-allocate", PREFIX + "gpu-partition-spec"
SAME_SWITCH = "SamePCIe"
STRATEGY = "allocateStrategy"
TYPES = ("fpga", "gpu", "rdma")
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


class UnreadableError(Exception):
    """An annotation that Koordinator cannot read either."""


@dataclass(frozen=True)
class Joint:
    """Types whose devices are chosen one after the other, near those of the first."""

    types: Sequence[str]
    scope: str

    @property
    def same_switch(self) -> bool:
        return self.scope == SAME_SWITCH


@dataclass(frozen=True)
class Spec:
    """Which partitions of GPUs a pod wants."""

    policy: str
    bandwidth: int | None


def _read(pod: Obj, name: str) -> Any:
    text = pod["metadata"].get("annotations", {}).get(name)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        raise UnreadableError from None
    if not isinstance(found, dict | None):
        raise UnreadableError
    return found or {}


def hints(pod: Obj) -> dict[str, Any]:
    """What the hint says by device type."""
    found: dict[str, Any] = _read(pod, HINT) or {}
    for hint in found.values():
        for name in ("selector", "vfSelector"):
            for expression in ((hint or {}).get(name) or {}).get("matchExpressions") or []:
                if expression["operator"] not in OPERATORS:
                    raise UnreadableError
    return found


def scope_word(pod: Obj) -> str:
    return str((hints(pod).get("gpu") or {}).get("requiredTopologyScope", ""))


def joint(pod: Obj, wanted: Mapping[str, Ask]) -> Joint | None:
    """Only types that are asked for count, and none of which every device is taken."""
    found = _read(pod, JOINT)
    if found is None:
        return None
    if not isinstance(found.get("deviceTypes"), list | None):
        raise UnreadableError
    every = {kind for kind, hint in hints(pod).items() if (hint or {}).get("allocateStrategy") == "ApplyForAll"}
    types = [kind for kind in found.get("deviceTypes") or [] if kind in wanted and kind not in every]
    return Joint(types, found.get("requiredScope", ""))


def spec(pod: Obj, wanted: Mapping[str, Ask]) -> Spec | None:
    """Nobody looks at it where no GPU is asked for."""
    found = _read(pod, SPEC) if "gpu" in wanted else None
    if found is None:
        return None
    text = found.get("ringBusBandwidth")
    try:
        to_int(text or 0)
    except QuantityError:
        raise UnreadableError from None
    return Spec(found.get("allocatePolicy") or "BestEffort", None if text is None else to_int(text))


def selects(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """A label selector as the API writes it; none selects all."""
    wanted = [(key, "In", [value]) for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    wanted += [(e["key"], e["operator"], e.get("values")) for e in (selector or {}).get("matchExpressions") or []]
    return all(OPERATORS[operator](labels.get(key), values) for key, operator, values in wanted)


def refused(pod: Obj, wanted: Mapping[str, Ask]) -> KoordinatorQuirk | None:
    """What Koordinator reads on a pod though it can never be followed, or though nobody can know what is meant."""
    if any(hint is None for hint in hints(pod).values()):
        return KoordinatorQuirk.NULL_HINT_CRASHES
    word, ask, jointly, partition = scope_word(pod), wanted.get("gpu"), joint(pod, wanted), spec(pod, wanted)
    if word and word not in (*scopes.LEVELS, "Device"):
        return KoordinatorQuirk.SCOPE_UNKNOWN_IGNORED
    if word == "Device" or (word and ask and ask.shared and ask.count > 1):
        return KoordinatorQuirk.SCOPE_NEVER_FOUND
    if ask and "vfSelector" in (hints(pod).get("gpu") or {}):
        return KoordinatorQuirk.FUNCTIONS_OF_GPUS
    if (jointly and jointly.scope not in ("", SAME_SWITCH)) or (
        partition and partition.policy not in ("Restricted", "BestEffort")
    ):
        return KoordinatorQuirk.WORD_UNKNOWN_IGNORED
    return KoordinatorQuirk.WORD_UNKNOWN_IGNORED if says_more(pod, wanted) else None


def says_more(pod: Obj, wanted: Mapping[str, Ask]) -> bool:
    """Tell whether there are fields, types or words that Koordinator passes over."""
    for kind, hint in hints(pod).items():
        known = {"selector", "vfSelector", "exclusivePolicy", "requiredTopologyScope" if kind == "gpu" else STRATEGY}
        if kind not in TYPES or {*hint} - known:
            return True
        words = (hint.get(STRATEGY), hint.get("exclusivePolicy"))
        if words[0] not in (None, "", "ApplyForAll", "RequestsAsCount"):
            return True
        if words[1] not in (None, "", "DeviceLevel", "PCIeLevel"):
            return True
    jointly, partition = _read(pod, JOINT) or {}, (_read(pod, SPEC) if "gpu" in wanted else None) or {}
    if {*jointly} - {"deviceTypes", "requiredScope"} or {*partition} - {"allocatePolicy", "ringBusBandwidth"}:
        return True
    return any(kind not in TYPES for kind in jointly.get("deviceTypes") or [])
