"""Volcano's binpack in plain Python: from raw objects and from amounts to a score. Slow and obvious."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.naive.hami_quirks import Switches
from tests.naive.predicates import requests, units
from tests.naive.volcano_quirks import VolcanoQuirk

from vgpu_scheduler.kube import parse_quantity

Obj = dict[str, Any]
Amounts = dict[str, int]

INT64 = 2**63


def arguments(given: Mapping[str, object]) -> tuple[int, Amounts]:
    """The global weight, and the weight of each resource (D1-12 to D1-19)."""

    def integer(key: str) -> int:
        value = given.get(key, 1)
        readable = type(value) is int and -INT64 <= value < INT64
        return value if readable else 1  # type: ignore[return-value]

    def at_least_0(key: str) -> int:
        return 1 if integer(key) < 0 else integer(key)

    listed = given.get("binpack.resources")
    weights = {}
    for part in listed.split(",") if isinstance(listed, str) else []:
        if part.strip():
            weights[part.strip()] = at_least_0(f"binpack.resources.{part.strip()}")
    weights["cpu"] = at_least_0("binpack.cpu")
    weights["memory"] = at_least_0("binpack.memory")
    return integer("binpack.weight"), weights


def resource_score(asked: float, used: float, capacity: float, weight: float) -> float | None:
    """None if it does not fit (D1-23 to D1-26)."""
    if capacity == 0 or weight == 0:
        return 0.0
    if used + asked > capacity:
        return None
    return (used + asked) / capacity * weight


def score(
    asked: Mapping[str, float], used: Mapping[str, float], capacity: Mapping[str, float], weights: Mapping[str, int]
) -> float:
    """The share of the node that is used after the pod, 0 to 1 (D1-27 to D1-32)."""
    total, weight_sum = 0.0, 0
    for name, amount in asked.items():
        if amount == 0 or name not in weights:
            continue
        part = resource_score(amount, used.get(name, 0), capacity.get(name, 0), weights[name])
        if part is None:
            return 0.0
        total += part
        weight_sum += weights[name]
    return total / weight_sum if weight_sum > 0 else 0.0


# Objects -----------------------------------------------------------------------------------------------------------


def counted(name: str) -> bool:
    """Whether Volcano counts a resource: not the names of object quotas, nor names that no resource can have."""
    native = name in ("cpu", "memory", "ephemeral-storage", "pods")
    return native or name.startswith(("hugepages-", "attachable-volumes-")) or _qualified(name)


def _qualified(name: str) -> bool:
    return "/" in name and not name.startswith(("count/", "requests."))


def request_of(pod: Obj, switch: Switches) -> Amounts:
    found = requests(pod)
    own = found.pop("pods", Fraction(0))  # the API server lets no container ask for them
    result = {name: units(name, value) for name, value in found.items() if counted(name)}
    result["pods"] = 1 + (units("pods", own) if own and switch(VolcanoQuirk.PODS_OF_CONTAINERS_COUNTED) else 0)
    return {name: amount for name, amount in result.items() if amount}


def used_on(node: Obj, pods: Sequence[Obj], switch: Switches) -> Amounts:
    """What the pods on a node ask for together; those that are being deleted count until they are gone."""
    used: Amounts = {}
    for pod in pods:
        here = pod["spec"].get("nodeName") == node["metadata"]["name"]
        if here and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            for name, amount in request_of(pod, switch).items():
                used[name] = used.get(name, 0) + amount
    return used


def offered_by(node: Obj) -> Amounts:
    offered = {name: units(name, parse_quantity(text)) for name, text in node["status"]["allocatable"].items()}
    return {name: amount for name, amount in offered.items() if amount and counted(name)}


# Devices -----------------------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """What one container asks of one vendor: devices, and an amount or a percentage of each."""

    kind: str  # init, sidecar or app
    devices: int
    amount: int
    percent: int


def device_amounts(
    totals: Sequence[int], useds: Sequence[int], containers: Iterable[Sequence[Slice]], *, in_percent: bool
) -> tuple[int, int, int]:
    """What a pod asks of one dimension of a node's devices, what is used of it, and what there is."""
    total, cards = sum(totals), len(totals)
    peak = running = 0
    for slices in containers:
        own = sum(s.devices * _of_average(s, total, cards, in_percent=in_percent) for s in slices)
        peak = max(peak, running + own)
        if slices and slices[0].kind != "init":
            running += own
    if not in_percent:
        return peak, sum(useds), total
    shares = [used * 100 // of for used, of in zip(useds, totals, strict=True) if of]
    return peak, sum(shares), 100 * cards if total else 0


def _of_average(asked: Slice, total: int, cards: int, *, in_percent: bool) -> int:
    """One device's part, as if it were the average one; where there is none, anything above 0 will do."""
    if in_percent and asked.amount:
        return asked.amount * 100 * cards // total if total else asked.amount
    if in_percent or (not asked.amount and not cards):
        return asked.percent
    return asked.amount or total * asked.percent // (100 * cards)
