"""What Koordinator's pods ask for, in plain Python: arguments and requests. Slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.naive import deviceshare
from tests.naive.predicates import requests, units

Obj = dict[str, Any]
Amounts = dict[str, int]

WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu")
NPU = ("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp")
PREFIX = "koordinator.sh/"
CORE, MEMORY, RATIO, SHARED = (PREFIX + name for name in ("gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared"))
OF_NPUS = (
    {NPU[0], RATIO},
    {SHARED, NPU[0], NPU[1], MEMORY},
    {SHARED, *NPU, MEMORY},
)
"""The sets of names that ask for NPUs."""
GPU_NAMES = (*WHOLE, *NPU, PREFIX + "gpu", CORE, MEMORY, RATIO, SHARED)

DEFAULT_WEIGHTS = {PREFIX + name: 1 for name in ("gpu-memory-ratio", "gpu-memory", "rdma", "fpga")}


class InvalidError(Exception):
    """The pod's requests do not go together."""


@dataclass(frozen=True)
class Ask:
    """What a pod asks of one device type: how many, and what of each."""

    count: int
    each: Amounts
    converted: Amounts

    @property
    def shared(self) -> bool:
        return self.each.get(RATIO, 0) < 100 if RATIO in self.each else MEMORY in self.each


# Arguments ---------------------------------------------------------------------------------------------------------


def arguments(given: Obj) -> tuple[str, Amounts] | None:
    """Strategy and weights; None if Koordinator would not start with them."""
    strategy = given.get("scoringStrategy")
    if strategy is None:
        return deviceshare.LEAST, dict(DEFAULT_WEIGHTS)
    weights = {}
    for resource in strategy.get("resources") or []:
        if not 0 < resource.get("weight", 0) <= 100:
            return None
        weights[resource["name"]] = resource["weight"]
    kind = strategy.get("type")
    return (kind, weights) if kind in (deviceshare.LEAST, deviceshare.MOST) else None


# Requests ----------------------------------------------------------------------------------------------------------


def requested(pod: Obj) -> Amounts:
    found = {name: units(name, value) for name, value in requests(pod).items()}
    return {name: amount for name, amount in found.items() if amount and device_type(name)}


def device_type(name: str) -> str:
    if name in GPU_NAMES:
        return "gpu"
    return name.removeprefix(PREFIX) if name in (PREFIX + "rdma", PREFIX + "fpga") else ""


def asks(pod: Obj) -> dict[str, Ask]:
    found = requested(pod)
    result = {}
    for kind in ("fpga", "gpu", "rdma"):
        own = {name: amount for name, amount in found.items() if device_type(name) == kind}
        if own:
            result[kind] = gpus(own) if kind == "gpu" else others(own)
    return result


def beyond_a_device(wanted: Mapping[str, Ask]) -> bool:
    """Tell whether a pod asks each GPU for more compute than one has: Koordinator finds no device for it, ever."""
    return "gpu" in wanted and wanted["gpu"].each.get(CORE, 0) > 100


def others(own: Amounts) -> Ask:
    ((name, amount),) = own.items()
    percent(amount)
    return Ask(max(amount // 100, 1), {name: min(amount, 100)}, dict(own))


def percent(amount: int) -> None:
    if amount > 100 and amount % 100:
        raise InvalidError


def gpus(own: Amounts) -> Ask:
    converted = convert(own)
    count = converted.get(SHARED, 0)
    if not count:
        ratio = converted.get(RATIO, 0)
        count = ratio // 100 if ratio > 100 and ratio % 100 == 0 else 1
    each = {name: amount // count for name, amount in converted.items() if name != SHARED}
    return Ask(count, each, converted)


def convert(own: Amounts) -> Amounts:
    names = set(own)
    if len(names) == 1 and names <= {*WHOLE, PREFIX + "gpu"}:
        ((name, amount),) = own.items()
        if name == PREFIX + "gpu":
            percent(amount)
        else:
            amount *= 100
        return {CORE: amount, RATIO: amount}
    if names - {SHARED, CORE} not in ({MEMORY}, {RATIO}) or names == {SHARED, CORE}:
        raise InvalidError
    for name in names & {CORE, RATIO}:
        if SHARED in names:
            if own[name] % own[SHARED] or own[name] // own[SHARED] > 100:
                raise InvalidError
        else:
            percent(own[name])
    return dict(own)
