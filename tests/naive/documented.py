"""The rules of the source documents, read literally, for the worked examples; no decision of ours in them.

Numbers such as D0-07 are the ids of the examples in ``tests/vectors/documented.json``, by document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

Obj = dict[str, Any]
UNSET = 101
INT32 = 2**31 - 1


def memory_need(request: Mapping[str, int], total: int) -> int:
    """Percent beats the absolute amount (D0-07)."""
    percent = request.get("MemPercentagereq", UNSET)
    return request["Memreq"] if percent in (0, UNSET) else total * percent // 100


def device_score(device: Mapping[str, int], requests: Sequence[Mapping[str, int]]) -> Obj:
    slots = sum(request["Nums"] for request in requests)
    cores = sum(request["Coresreq"] for request in requests)
    memory = sum(memory_need(request, device["Totalmem"]) for request in requests)
    score = {
        "UsedScore": (slots + device["Used"]) / device["Count"],
        "CoreScore": (cores + device["Usedcores"]) / device["Totalcore"],
        "MemScore": (memory + device["Usedmem"]) / device["Totalmem"],
    }
    return {**score, "DeviceScore": 10 * sum(score.values())}


def card_order(cards: Sequence[Obj], policy: str) -> list[str]:
    """The sorted list; cards are tried from its end (D0-15 to D0-19)."""
    if policy == "binpack":
        return [card["id"] for card in sorted(cards, key=lambda card: (-card["numa"], card["score"]))]
    return [card["id"] for card in sorted(cards, key=lambda card: (card["numa"], -card["score"]))]


def numa_bind(cards: Sequence[Obj], policy: str, count: int, unhealthy: Sequence[str]) -> list[str] | None:
    numa = {card["id"]: card["numa"] for card in cards}
    picks: list[str] = []
    for card in reversed(card_order(cards, policy)):
        if card in unhealthy:
            continue
        if picks and numa[picks[-1]] != numa[card]:
            picks = []
        picks.append(card)
        if len(picks) == count:
            return picks
    return None


def linked(candidates: Sequence[str], pairs: Mapping[tuple[str, str], int], count: int) -> list[str] | None:
    """None, all of them, the one with the lowest total, or the subset with the highest sum inside (D2-41 to D2-44)."""

    def score(one: str, other: str) -> int:
        return pairs.get((one, other), pairs.get((other, one), 0))

    if len(candidates) <= count:
        return list(candidates) if len(candidates) == count else None
    if count == 1:
        return [min(candidates, key=lambda card: sum(score(card, other) for other in candidates if other != card))]
    subsets = combinations(candidates, count)
    return list(max(subsets, key=lambda subset: sum(score(*pair) for pair in combinations(subset, 2))))


def node_order(scores: Mapping[str, float], policy: str) -> list[str]:
    """The sorted list, of which the last is chosen (D0-32, D0-33)."""
    return sorted(scores, key=lambda node: scores[node], reverse=policy == "spread")


def single_card(device: Obj, request: Obj) -> str:
    """The nine checks (D2-10) on one card."""
    cores = min(request["cores"], 100)
    memory = request["mem"] if "mem" in request else device["Totalmem"] * request["pct"] // 100
    if not device["health"]:
        return "CardNotHealth"
    if device["Count"] <= device["Used"]:
        return "CardTimeSlicingExhausted"
    if device["Totalcore"] - device["Usedcores"] < cores:
        return "CardInsufficientCore"
    if device["Totalmem"] - device["Usedmem"] < memory:
        return "CardInsufficientMemory"
    if device["Totalcore"] == 100 and cores == 100 and device["Used"] > 0:
        return "ExclusiveDeviceAllocateConflict"
    if cores == 0 and device["Usedcores"] == device["Totalcore"] != 0:
        return "CardComputeUnitsExhausted"
    return "ok"


def request(limits: Obj, requests: Obj, default_memory: int, default_cores: int) -> list[int]:
    """Nums, Memreq, MemPercentagereq, Coresreq (D3-21 to D3-29)."""
    given = {**requests, **limits}
    if "gpu" not in given:
        return [0, 0, 0, 0]
    memory, percent = given.get("gpumem", 0), given.get("pct", UNSET)
    if percent == UNSET and memory == 0:
        memory, percent = (default_memory, UNSET) if default_memory else (0, 100)
    return [given["gpu"], memory, percent, given.get("gpucores", default_cores)]


def decode(value: str) -> list[list[Obj]]:
    """The decoder of version 2.4 (D3-57 to D3-64): bad numbers are read somehow, empty containers dropped."""
    containers = []
    for part in value.split(";"):
        devices = []
        for text in part.split(":"):
            fields = text.split(",")
            if len(fields) == 1:
                continue
            if len(fields) < 4:
                return []
            names = ("UUID", "Type", "Usedmem", "Usedcores")
            devices.append(dict(zip(names, (*fields[:2], number(fields[2]), number(fields[3])), strict=True)))
        if devices:
            containers.append(devices)
    return containers


def number(text: str) -> int:
    try:
        return max(-INT32 - 1, min(INT32, int(text)))
    except ValueError:
        return 0


def time_utc(unix: str) -> str:
    return datetime.fromtimestamp(int(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def binpack_weights(arguments: Obj) -> Obj:
    """The weight map (D1-12 to D1-19)."""
    cpu = arguments.get("binpack.cpu", 1)
    memory = arguments.get("binpack.memory", 1)
    weights = {}
    for name in filter(None, (part.strip() for part in arguments.get("binpack.resources", "").split(","))):
        weight = arguments.get(f"binpack.resources.{name}", 1)
        weights[name] = 1 if weight < 0 else weight
    weights["cpu"] = 1 if cpu < 0 else cpu
    weights["memory"] = 1 if memory < 0 else memory
    return weights


def binpack(task: Obj, allocatable: Obj, used: Obj, weights: Obj, weight: int) -> Obj:
    """The score of one node, step by step (D1-23 to D1-33)."""
    steps: Obj = {"sum": 0.0, "weight_sum": 0}
    for name, requested in task.items():
        if requested == 0 or name not in weights:
            continue
        capacity = allocatable.get(name, 0)
        if capacity == 0 or weights[name] == 0:
            steps[f"{name}_score"] = 0.0
        elif used.get(name, 0) + requested > capacity:
            return {"final": 0.0}
        else:
            steps[f"{name}_score"] = (used.get(name, 0) + requested) / capacity * weights[name]
        steps["sum"] += steps[f"{name}_score"]
        steps["weight_sum"] += weights[name]
    steps["normalised"] = steps["sum"] / steps["weight_sum"] if steps["weight_sum"] > 0 else 0.0
    steps["final"] = steps["normalised"] * 100 * weight
    return steps
