"""Koordinator's choice of devices in plain Python, from the API objects to an annotation. Slow and obvious.

NPUs and the NUMA affinity of a topology manager are beyond this twin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.naive import deviceshare, koordinator_hints, partitions, scopes
from tests.naive.hami_quirks import Switches
from tests.naive.koordinator import MEMORY, PREFIX, RATIO, Amounts, Ask, Obj, arguments, asks
from tests.naive.koordinator_books import Function, Slot, allocation, books, counts
from tests.naive.koordinator_hints import Joint, Spec
from tests.naive.koordinator_quirks import KoordinatorQuirk
from tests.naive.partitions import Partition, Table

from vgpu_scheduler.kube import to_int

# Nodes -------------------------------------------------------------------------------------------------------------

TABLE = koordinator_hints.PREFIX + "gpu-partitions"


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
    pod, wanted = case["pod"], asks(case["pod"])
    strategy = arguments(case["args"])
    assert strategy is not None
    listed = {device["metadata"]["name"]: device for device in case["devices"]}
    result = {}
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        if name in listed:
            foreign = is_foreign(node, listed[name]) and not switch(KoordinatorQuirk.FOREIGN_VENDOR)
            models = case["args"].get("gpuShareUnsupportedModels") or []
            unreadable = listed[name]["metadata"].get("annotations", {}).get(TABLE) and read_table(listed[name]) is None
            if unreadable and not switch(KoordinatorQuirk.PARTITIONS_UNREADABLE):
                result[name] = Node(0, {}, {}, "", fits=False)
                continue
            if foreign or is_isolated_otherwise(node, pod, wanted) or cannot_share(node, wanted, models):
                result[name] = Node(0, {}, {}, "", fits=False)
                continue
            slots = books(listed[name], case["pods"], switch)
            world = World(
                wanted,
                strategy,
                koordinator_hints.hints(pod),
                koordinator_hints.joint(pod, wanted),
                koordinator_hints.spec(pod, wanted),
                partitions_of(node, listed[name]),
                switch,
            )
            result[name] = on_node(slots, world)
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


@dataclass(frozen=True)
class Partitions:
    """How a node's GPUs are given out together: the table, if there is one, and whether in no other way."""

    table: Table | None
    only: bool


def partitions_of(node: Obj, device: Obj) -> Partitions:
    """The table of the Device object, or the one that the model of the node is known for."""
    model, policy = ("node.koordinator.sh/" + name for name in ("gpu-model", "gpu-partition-policy"))
    table = read_table(device)
    if table is not None:
        return Partitions(table, device["metadata"].get("labels", {}).get(policy) == "Honor")
    labels = node["metadata"].get("labels", {})
    known = labels.get(model) in ("H100", "H800", "H20") and not is_foreign(node)
    return Partitions(partitions.HOPPER if known else None, labels.get(policy) == "Honor")


def read_table(device: Obj) -> Table | None:
    """The table of the Device object; Koordinator takes one that it cannot read for none."""
    try:
        found = json.loads(device["metadata"].get("annotations", {}).get(TABLE) or "null")
    except ValueError:
        return None
    return found and {int(size): [partition(entry) for entry in listed] for size, listed in found.items()}


def partition(entry: Obj) -> Partition:
    text = entry.get("ringBusBandwidth")
    return Partition(tuple(entry["minors"]), entry.get("allocationScore", 0), None if text is None else to_int(text))


def cannot_share(node: Obj, wanted: Mapping[str, Ask], models: Sequence[Obj]) -> bool:
    """Tell whether the model of a node is one that the arguments say cannot be shared."""
    labels = node["metadata"].get("labels", {})
    there = tuple(labels.get("node.koordinator.sh/" + name, "") for name in ("gpu-vendor", "gpu-model"))
    listed = {(model.get("vendor", ""), model.get("model", "")) for model in models}
    return "gpu" in wanted and wanted["gpu"].shared and there in listed


def on_node(slots: Sequence[Slot], world: World) -> Node:
    by_type = {kind: [slot for slot in slots if slot.kind == kind] for kind in world.wanted}
    if not all(by_type.values()):
        return Node(None, {}, {}, "", fits=False)
    points = 0
    types: Obj = {}
    for kind, own in by_type.items():
        ask = world.wanted[kind]
        order = ordered(own, ask.each, world.strategy)
        if not any(any(slot.free().values()) for slot in own):
            order = []  # a type of which nothing is free is left out before anything is scored
        if order:
            found = [(s.total, s.free()) for s in own]
            points += deviceshare.score(found, ask.each, world.strategy[1], world.strategy[0])
        types[kind] = {
            "count": ask.count,
            "perInstance": ask.each,
            "devices": [
                {"minor": slot.minor, "score": card_score(slot, ask.each, world.strategy), "free": slot.free()}
                for slot in order
            ],
        }
    picked = picks_of(by_type, world)
    if picked is None:
        return Node(points, types, {}, "", fits=False)
    minors = {kind: [pick.slot.minor for pick in picks] for kind, picks in picked.items()}
    return Node(points, types, minors, annotation(picked), fits=True)


# Picks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What a pod wants of a node, and what is particular about the node."""

    wanted: Mapping[str, Ask]
    strategy: tuple[str, Amounts]
    hints: Mapping[str, Obj]
    joint: Joint | None
    spec: Spec | None
    partitions: Partitions
    switch: Switches


@dataclass(frozen=True)
class Pick:
    """A device, what is taken of it, and its virtual function, if one is."""

    slot: Slot
    each: Amounts
    function: Function | None = None


Picks = dict[str, list[Pick]]


def picks_of(by_type: Mapping[str, Sequence[Slot]], world: World) -> Picks | None:
    """All types, those of a joint allocation first; None where one has too few."""
    for kind, own in by_type.items():
        if "vfSelector" in (world.hints.get(kind) or {}) and not any(slot.functions for slot in own):
            return None
    joint = world.joint if world.joint and world.joint.types and len(by_type) > 1 else None
    types = list(joint.types) if joint else []
    near: set[Place] = set()
    picked: Picks = {}
    for kind in [*types, *(kind for kind in by_type if kind not in types)]:
        least, each = desired(by_type[kind], kind, world)
        most = least
        if joint and kind in types[1:] and kind != "gpu":
            least = max(least, len(near)) if joint.same_switch else least
            most = max(least, len(near))
        found = pick(by_type[kind], kind, (least, most, each), near if kind in types[1:] else set(), world)
        if not found:
            return None
        picked[kind] = found
        if joint and kind == types[0]:
            near = switches(found, world)
    if joint and joint.same_switch and any(switches(picked[kind], world) != near for kind in types[1:]):
        return None
    return picked


Place = tuple[int, str]


def switch_of(slot: Slot, world: World) -> Place | None:
    """The switch of a device; Koordinator looks at its id alone."""
    if slot.place is None:
        return None
    return (0, slot.place[1]) if world.switch(KoordinatorQuirk.SWITCH_BY_ID) else slot.place


def switches(picks: Sequence[Pick], world: World) -> set[Place]:
    found = (switch_of(pick.slot, world) for pick in picks)
    return {place for place in found if place is not None}


def desired(own: Sequence[Slot], kind: str, world: World) -> tuple[int, Amounts]:
    """How many devices of a type, and what of each; hints say more only of those that are no GPUs."""
    ask, hint = world.wanted[kind], world.hints.get(kind) or {}
    (name, amount), *_ = ask.converted.items()
    if kind == "gpu" or amount > 100:
        return ask.count, ask.each
    if hint.get("allocateStrategy") == "ApplyForAll":
        return sum(koordinator_hints.selects(hint.get("selector"), slot.labels) for slot in own), ask.each
    if hint.get("allocateStrategy") == "RequestsAsCount":
        return amount, {name: 100 if hint.get("exclusivePolicy") == "DeviceLevel" else 1}
    return ask.count, ask.each


def pick(
    every: Sequence[Slot], kind: str, number: tuple[int, int, Amounts], near: set[Place], world: World
) -> list[Pick]:
    least, most, each = number
    hint, ask = world.hints.get(kind) or {}, world.wanted[kind]
    own = [slot for slot in every if koordinator_hints.selects(hint.get("selector"), slot.labels)]
    if kind == "gpu":
        if not ask.shared:
            wants, there = world.spec, world.partitions
            found = partitions.choose(
                there.table,
                ask.count,
                frozenset(slot.minor for slot in own if slot.total and not slot.in_use()),
                frozenset(slot.minor for slot in every if slot.in_use()),
                wants.bandwidth if wants else None,
                restricted=wants is not None and wants.policy == "Restricted",
            )
            if found is not None or there.only or wants:
                return [Pick(slot, each) for minor in found or () for slot in own if slot.minor == minor]
        scope = hint.get("requiredTopologyScope", "")
        if scope or (all(s.place for s in every) and not (ask.shared and ask.count > 1)):
            return [Pick(slot, each) for slot in in_scope(every, own, ask, scope, world)]
    fitting = [slot for slot in ordered(own, each, world.strategy) if slot.room_for(each)]
    if near:
        fitting = in_turns(fitting, near, world)
    picks = []
    for slot in fitting:
        function = None
        if "vfSelector" in hint:
            left = [f for f in slot.functions if koordinator_hints.selects(hint["vfSelector"], f.labels)]
            left = [f for f in left if f.bus not in slot.given]
            if not left:
                continue
            function = min(left)
        picks.append(Pick(slot, each, function))
    return picks[:most] if len(picks) >= least else []


def in_turns(order: Sequence[Slot], near: set[Place], world: World) -> list[Slot]:
    """The best of each switch, then the second best of each, and so on; then those of other switches."""
    turns: dict[int, list[Slot]] = {}
    seen: dict[Place, int] = {}
    for slot in order:
        switch = switch_of(slot, world)
        turn = -1
        if switch is not None and switch in near:
            turn = seen[switch] = seen.get(switch, -1) + 1
        turns.setdefault(turn, []).append(slot)
    rest = turns.pop(-1, [])
    return [slot for turn in sorted(turns) for slot in turns[turn]] + rest


def ordered(own: Sequence[Slot], each: Amounts, strategy: tuple[str, Amounts]) -> list[Slot]:
    scores = [card_score(slot, each, strategy) for slot in own]
    return [own[i] for i in deviceshare.order(scores, [slot.minor for slot in own])]


def in_scope(every: Sequence[Slot], own: Sequence[Slot], ask: Ask, scope: str, world: World) -> list[Slot]:
    """The GPUs of the best scope of the tree; none where it has not enough, or the place of a GPU is not known."""
    places = [slot.place for slot in every if slot.place is not None]
    never = scope == "Device" or (ask.shared and ask.count > 1)
    if len(places) < len(every) or never:
        return []
    swapped = world.switch(KoordinatorQuirk.SCOPE_SCORE_SWAPPED)
    kind, weights = world.strategy
    leaves = [
        scopes.Leaf(
            place,
            slot.minor,
            slot in own and slot.room_for(ask.each),
            slot.in_use(),
            deviceshare.score([(slot.free(), slot.total)], ask.each, weights, kind)
            if swapped
            else card_score(slot, ask.each, world.strategy),
        )
        for place, slot in zip(places, every, strict=True)
    ]
    found = scopes.choose(leaves, ask.count, whole=not ask.shared, level=scopes.LEVELS.get(scope, 0))
    return [every[position] for position in found or ()]


def card_score(slot: Slot, each: Amounts, strategy: tuple[str, Amounts]) -> int:
    return deviceshare.score([(slot.total, slot.free())], each, strategy[1], strategy[0])


def annotation(picked: Picks) -> str:
    """The allocation as it is written, with plain numbers for quantities."""
    content = {kind: [written(pick) for pick in picked[kind]] for kind in sorted(picked)}
    return json.dumps(content, separators=(",", ":"))


def written(pick: Pick) -> Obj:
    amounts = sorted(filled(pick.each, pick.slot).items())
    entry: Obj = {
        "minor": pick.slot.minor,
        "resources": {name: str(amount) for name, amount in amounts},
        "id": pick.slot.id,
    }
    if pick.function:
        minor = {"minor": pick.function.minor} if pick.function.minor else {}
        entry["extension"] = {"vfs": [{**minor, "busID": pick.function.bus}]}
    return entry


def filled(each: Amounts, slot: Slot) -> Amounts:
    """Memory and its ratio are both booked, whichever of them was asked for."""
    if RATIO in each and MEMORY not in each:
        return {**each, MEMORY: each[RATIO] * slot.total[MEMORY] // 100}
    if MEMORY in each and RATIO not in each:
        return {**each, RATIO: int(float(each[MEMORY]) / float(slot.total[MEMORY]) * 100)}
    return dict(each)
