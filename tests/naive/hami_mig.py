"""MIG cards in plain Python: HAMi's profiles, the placements that are free, and the annotation of those in use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
UINT32 = 2**32 - 1
INT32 = 2**31 - 1
INT64 = 2**63 - 1


@dataclass(frozen=True)
class Held:
    """A placement in use: profile, first slice, number of slices."""

    profile: str
    start: int
    size: int
    template: int = -1

    def meets(self, other: Held) -> bool:
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True)
class Profile:
    name: str
    memory: int
    cores: int
    slices: int
    placements: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, wire: Obj) -> Profile:
        spans = tuple((span.get("start", 0), span.get("size", 0)) for span in wire.get("placements") or ())
        return cls(wire.get("name", ""), wire.get("memoryMB", 0), wire.get("core", 0), wire.get("sliceCount", 0), spans)


def select(profiles: Sequence[Profile], memory: int, in_use: Iterable[Held]) -> tuple[Profile, Held] | None:
    """The smallest profile that is large enough and has a free placement, and that placement."""
    taken = list(in_use)
    for profile in sorted(profiles, key=lambda profile: (profile.memory, profile.slices)):
        if profile.memory < memory:
            continue
        high_first = profile.name.startswith(("1g.", "3g."))
        for start, size in sorted(profile.placements, reverse=high_first):
            wanted = Held(profile.name, start, size)
            if not any(wanted.meets(other) for other in taken):
                return profile, wanted
    return None


def select_instance(templates: Sequence[Sequence[int]], memory: int, in_use: Sequence[Held]) -> Held | None:
    """The first free instance that is large enough: of the template in use, else of the first that has one."""
    template = in_use[0].template if in_use else None
    for number, instances in enumerate(templates):
        if template is None and any(size >= memory for size in instances):
            template = number
        if number == template:
            taken = {held.start for held in in_use}
            for slot, size in enumerate(instances):
                if slot not in taken and size >= memory:
                    return Held(str(size), slot, 1, number)
    return None


@dataclass(frozen=True)
class Allocation:
    container: int
    device: int
    uuid: str
    held: Held
    instance: tuple[str, int, int] | None = None


def decode(value: str) -> list[Allocation] | None:
    """The placements of a pod; None if the annotation cannot be read."""
    try:
        listed = json.loads(value or "null")
    except ValueError:
        return None
    if listed is not None and not isinstance(listed, list):
        return None
    found = [_allocation(item) for item in listed or []]
    keys = {(entry.container, entry.device) for entry in found if entry}
    whole = [entry for entry in found if entry]
    return whole if len(keys) == len(whole) == len(found) else None


def _allocation(item: Any) -> Allocation | None:
    if not isinstance(item, dict):
        return None
    item = {key: field for key, field in item.items() if field is not None}
    place = item.get("placement", {})
    if not isinstance(place, dict):
        return None
    numbers = [item.get("containerIndex", 0), item.get("deviceIndex", 0), place.get("start", 0), place.get("size", 0)]
    texts = [item.get("gpuUUID", ""), item.get("profile", "")]
    if any(type(number) is not int for number in numbers) or any(type(text) is not str for text in texts):
        return None
    container, device, start, size = numbers
    if min(container, device, start) < 0 or max(start, size) > UINT32 or size <= 0 or not all(texts):
        return None
    made = [item.get(key) for key in ("migUUID", "gpuInstanceID", "computeInstanceID")]
    if made != [None] * 3 and (None in made or made[0] == ""):
        return None
    instance = None if made == [None] * 3 else (str(made[0]), int(str(made[1])), int(str(made[2])))
    return Allocation(container, device, texts[0], Held(texts[1], start, size), instance)


def encode(allocations: Sequence[Allocation]) -> str:
    items = []
    for entry in allocations:
        item: Obj = {
            "containerIndex": entry.container,
            "deviceIndex": entry.device,
            "gpuUUID": entry.uuid,
            "profile": entry.held.profile,
            "placement": {"start": entry.held.start, "size": entry.held.size},
        }
        if entry.instance:
            item |= dict(zip(("migUUID", "gpuInstanceID", "computeInstanceID"), entry.instance, strict=True))
        items.append(item)
    return json.dumps(items, separators=(",", ":"))
