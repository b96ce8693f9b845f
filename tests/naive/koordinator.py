"""Koordinator's device scheduling in plain Python, from the API objects to an annotation. Slow and obvious.

Nodes whose devices are picked by other rules than the score and the topology tree (partitions, other hints than that of
the scope) are beyond this twin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.naive import deviceshare, scopes
from tests.naive.hami_quirks import Switches
from tests.naive.koordinator_quirks import KoordinatorQuirk
from tests.naive.predicates import requests, units

from vgpu_scheduler.kube import to_int

Obj = dict[str, Any]
Amounts = dict[str, int]

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
NOT_FOLLOWED = ("scheduling.koordinator.sh/device-joint-allocate", "scheduling.koordinator.sh/gpu-partition-spec")
SCOPE = "requiredTopologyScope"

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


# Hints -------------------------------------------------------------------------------------------------------------


def hints(pod: Obj) -> Obj | None:
    """What the hint says by device type; None where it cannot be read."""
    try:
        found = json.loads(pod["metadata"].get("annotations", {}).get(HINT, "{}"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def follows(pod: Obj) -> bool:
    """Tell whether there is no hint but that of the scope, no joint allocation and no partition spec."""
    given, found = pod["metadata"].get("annotations", {}), hints(pod)
    if found is None or any(name in given for name in NOT_FOLLOWED):
        return False
    fields = {(kind, name) for kind, hint in found.items() for name in (["null"] if hint is None else hint)}
    return fields <= {("gpu", SCOPE)}


def scope_word(pod: Obj) -> str:
    return str(((hints(pod) or {}).get("gpu") or {}).get(SCOPE, ""))


def odd_scope(pod: Obj, wanted: Mapping[str, Ask]) -> KoordinatorQuirk | None:
    """What is odd about the scope: no word of Koordinator, or nothing that is ever found on a node."""
    word, ask = scope_word(pod), wanted.get("gpu")
    if word and word not in (*scopes.LEVELS, "Device"):
        return KoordinatorQuirk.SCOPE_UNKNOWN_IGNORED
    if word == "Device" or (word and ask and ask.shared and ask.count > 1):
        return KoordinatorQuirk.SCOPE_NEVER_FOUND
    return None


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


# Books -------------------------------------------------------------------------------------------------------------


@dataclass
class Slot:
    """One device of a node."""

    kind: str
    minor: int
    id: str
    total: Amounts
    used: Amounts
    place: tuple[int, str] | None = None  # NUMA node and PCIe switch

    def free(self) -> Amounts:
        names = {**self.total, **self.used}
        return {name: max(self.total.get(name, 0) - self.used.get(name, 0), 0) for name in names}

    def room_for(self, ask: Ask) -> bool:
        free = self.free()
        return any(free.values()) and all(ask.each.get(name, 0) <= left for name, left in free.items())


def books(device: Obj, pods: Sequence[Obj], switch: Switches) -> list[Slot]:
    """The devices of a node with what the pods on it use; an unhealthy one has nothing."""
    slots = [
        Slot(
            entry["type"],
            entry["minor"],
            entry.get("id", ""),
            {name: to_int(text) for name, text in entry["resources"].items()} if entry.get("health") else {},
            {},
            place(entry.get("topology")),
        )
        for entry in device["spec"].get("devices") or []
    ]
    for pod in pods:
        if pod["spec"].get("nodeName") == device["metadata"]["name"] and counts(pod, switch):
            for slot in slots:
                for name, amount in held(pod, slot).items():
                    slot.used[name] = slot.used.get(name, 0) + amount
    return slots


def place(topology: Obj | None) -> tuple[int, str] | None:
    return None if topology is None else (topology.get("nodeID", 0), topology.get("pcieID", ""))


def counts(pod: Obj, switch: Switches) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or allocation(pod) is None:
        return False
    return bool(requested(pod)) or switch(KoordinatorQuirk.UNASKED_COUNTED)


def allocation(pod: Obj) -> Obj | None:
    try:
        found = json.loads(pod["metadata"].get("annotations", {}).get(ALLOCATED, "null"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def held(pod: Obj, slot: Slot) -> Amounts:
    found: Amounts = {}
    for entry in (allocation(pod) or {}).get(slot.kind) or []:
        if entry["minor"] == slot.minor:
            for name, text in entry["resources"].items():
                found[name] = found.get(name, 0) + to_int(text)
    return found


# Nodes -------------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """What becomes of a pod on one node; the score is None where the node lacks a type that is asked for."""

    score: int | None
    types: Obj
    minors: dict[str, list[int]]
    annotation: str
    fits: bool


def decide(case: Obj, switch: Switches) -> dict[str, Node]:
    """Every node of a case."""
    wanted = asks(case["pod"])
    strategy = arguments(case["args"])
    assert strategy is not None
    listed = {device["metadata"]["name"]: device for device in case["devices"]}
    result = {}
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        if name in listed:
            foreign = is_foreign(node, listed[name]) and not switch(KoordinatorQuirk.FOREIGN_VENDOR)
            if foreign or is_isolated_otherwise(node, case["pod"], wanted):
                result[name] = Node(0, {}, {}, "", fits=False)
                continue
            slots = books(listed[name], case["pods"], switch)
            result[name] = on_node(slots, wanted, strategy, scope_word(case["pod"]), switch)
        else:
            result[name] = on_unlisted_node(name, case["pods"], wanted, switch)
    return result


def is_foreign(*objects: Obj) -> bool:
    """Tell whether the GPUs of a node are of another vendor than NVIDIA; for those nobody writes the label."""
    vendors = [thing["metadata"].get("labels", {}).get("node.koordinator.sh/gpu-vendor") for thing in objects]
    return any(vendor not in (None, "", "nvidia") for vendor in vendors)


def is_isolated_otherwise(node: Obj, pod: Obj, wanted: Mapping[str, Ask]) -> bool:
    """Tell whether node and pod name different providers of isolation, which matters for shares only."""
    label = PREFIX + "gpu-isolation-provider"
    named = {thing["metadata"].get("labels", {}).get(label, "") for thing in (node, pod)}
    return "gpu" in wanted and wanted["gpu"].shared and len(named) > 1


def on_unlisted_node(name: str, pods: Sequence[Obj], wanted: Mapping[str, Ask], switch: Switches) -> Node:
    """Koordinator lets pods pass where it knows of no devices: not where a pod is said to hold some all the same."""
    if not switch(KoordinatorQuirk.UNLISTED_NODE_FITS):
        return Node(0, {}, {}, "", fits=False)
    there = [pod for pod in pods if pod["spec"].get("nodeName") == name and counts(pod, switch)]
    held_types = {kind for pod in there for kind, entries in (allocation(pod) or {}).items() if entries}
    if not held_types:
        return Node(0, {}, {}, "", fits=True)
    if not wanted.keys() <= held_types:
        return Node(None, {}, {}, "", fits=False)
    types = {kind: {"count": ask.count, "perInstance": ask.each, "devices": []} for kind, ask in wanted.items()}
    return Node(0, types, {}, "", fits=False)


def on_node(
    slots: Sequence[Slot], wanted: Mapping[str, Ask], strategy: tuple[str, Amounts], scope: str, switch: Switches
) -> Node:
    by_type = {kind: [slot for slot in slots if slot.kind == kind] for kind in wanted}
    if not all(by_type.values()):
        return Node(None, {}, {}, "", fits=False)
    points = 0
    types: Obj = {}
    picked = {}
    for kind, own in by_type.items():
        ask = wanted[kind]
        scores = [card_score(slot, ask, strategy) for slot in own]
        order = [own[i] for i in deviceshare.order(scores, [slot.minor for slot in own])]
        if not any(any(slot.free().values()) for slot in own):
            order = []  # a type of which nothing is free is left out before anything is scored
        if order:
            points += deviceshare.score([(s.total, s.free()) for s in own], ask.each, strategy[1], strategy[0])
        types[kind] = {
            "count": ask.count,
            "perInstance": ask.each,
            "devices": [
                {"minor": slot.minor, "score": card_score(slot, ask, strategy), "free": slot.free()} for slot in order
            ],
        }
        if kind == "gpu" and (scope or (all(s.place for s in own) and not (ask.shared and ask.count > 1))):
            picked[kind] = in_scope(own, ask, strategy, scope, switch)
        else:
            picked[kind] = [slot for slot in order if slot.room_for(ask)][: ask.count]
    fits = all(len(picked[kind]) == wanted[kind].count for kind in wanted)
    if not fits:
        return Node(points, types, {}, "", fits=False)
    minors = {kind: [slot.minor for slot in devices] for kind, devices in picked.items()}
    return Node(points, types, minors, annotation(picked, wanted), fits=True)


def in_scope(own: Sequence[Slot], ask: Ask, strategy: tuple[str, Amounts], scope: str, switch: Switches) -> list[Slot]:
    """The GPUs of the best scope of the tree; none where it has not enough, or the place of a GPU is not known."""
    places = [slot.place for slot in own if slot.place is not None]
    never = scope == "Device" or (ask.shared and ask.count > 1)
    if len(places) < len(own) or never:
        return []
    swapped = switch(KoordinatorQuirk.SCOPE_SCORE_SWAPPED)
    leaves = [
        scopes.Leaf(
            place,
            slot.minor,
            slot.room_for(ask),
            any(slot.used.get(name) for name in slot.total),
            deviceshare.score([(slot.free(), slot.total)], ask.each, strategy[1], strategy[0])
            if swapped
            else card_score(slot, ask, strategy),
        )
        for place, slot in zip(places, own, strict=True)
    ]
    found = scopes.choose(leaves, ask.count, whole=not ask.shared, level=scopes.LEVELS.get(scope, 0))
    return [own[position] for position in found or ()]


def card_score(slot: Slot, ask: Ask, strategy: tuple[str, Amounts]) -> int:
    return deviceshare.score([(slot.total, slot.free())], ask.each, strategy[1], strategy[0])


def annotation(picked: Mapping[str, Sequence[Slot]], wanted: Mapping[str, Ask]) -> str:
    """The allocation as it is written, with plain numbers for quantities."""
    content = {}
    for kind in sorted(picked):
        content[kind] = [
            {
                "minor": slot.minor,
                "resources": {name: str(amount) for name, amount in sorted(filled(wanted[kind].each, slot).items())},
                "id": slot.id,
            }
            for slot in picked[kind]
        ]
    return json.dumps(content, separators=(",", ":"))


def filled(each: Amounts, slot: Slot) -> Amounts:
    """Memory and its ratio are both booked, whichever of them was asked for."""
    if RATIO in each and MEMORY not in each:
        return {**each, MEMORY: each[RATIO] * slot.total[MEMORY] // 100}
    if MEMORY in each and RATIO not in each:
        return {**each, RATIO: int(float(each[MEMORY]) / float(slot.total[MEMORY]) * 100)}
    return dict(each)
