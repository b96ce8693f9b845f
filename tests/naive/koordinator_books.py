"""What Koordinator's nodes have and what pods hold of it, in plain Python. Slow and obvious."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.naive.hami_quirks import Switches
from tests.naive.koordinator import Amounts, Obj, requested
from tests.naive.koordinator_quirks import KoordinatorQuirk

from vgpu_scheduler.kube import to_int

ALLOCATED = "scheduling.koordinator.sh/device-allocated"


class Function(NamedTuple):
    """A virtual function of a device."""

    bus: str
    minor: int
    labels: Mapping[str, str]


@dataclass
class Slot:
    """One device of a node."""

    kind: str
    minor: int
    id: str
    total: Amounts
    used: Amounts
    place: tuple[int, str] | None = None  # NUMA node and PCIe switch
    labels: Mapping[str, str] = field(default_factory=dict)
    functions: Sequence[Function] = ()
    given: set[str] = field(default_factory=set)  # functions that pods have, by their bus

    def free(self) -> Amounts:
        names = {**self.total, **self.used}
        return {name: max(self.total.get(name, 0) - self.used.get(name, 0), 0) for name in names}

    def room_for(self, each: Amounts) -> bool:
        free = self.free()
        return any(free.values()) and all(each.get(name, 0) <= left for name, left in free.items())

    def in_use(self) -> bool:
        return any(self.used.get(name) for name in self.total)


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
            entry.get("labels") or {},
            [
                Function(function["busID"], function.get("minor", 0), group.get("labels") or {})
                for group in entry.get("vfGroups") or []
                for function in group["vfs"]
            ],
        )
        for entry in device["spec"].get("devices") or []
    ]
    for pod in pods:
        if pod["spec"].get("nodeName") == device["metadata"]["name"] and counts(pod, switch):
            for slot in slots:
                for name, amount in held(pod, slot).items():
                    slot.used[name] = slot.used.get(name, 0) + amount
                slot.given |= {
                    function["busID"]
                    for entry in entries(pod, slot)
                    for function in (entry.get("extension") or {}).get("vfs") or []
                }
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
    for entry in entries(pod, slot):
        for name, text in entry["resources"].items():
            found[name] = found.get(name, 0) + to_int(text)
    return found


def entries(pod: Obj, slot: Slot) -> list[Obj]:
    return [entry for entry in (allocation(pod) or {}).get(slot.kind) or [] if entry["minor"] == slot.minor]
