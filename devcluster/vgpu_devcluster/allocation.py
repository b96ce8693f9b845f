"""How device plugins read a pod: what its containers ask for, and what the annotations assign to them.

Entries are ``UUID,type,MiB,cores:`` per device and end with ``;`` per container, init containers first. To blank an
entry the plugin decodes and encodes the whole value, and each such round trip appends one more ``;``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .vendors import Vendor

Object = dict[str, Any]

NODE = "hami.io/vgpu-node"
PHASE = "hami.io/bind-phase"


@dataclass(frozen=True, slots=True)
class Amount:
    """The amounts in use on a card: slots, MiB, percent of the cores."""

    slots: int = 0
    memory: int = 0
    cores: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.slots + other.slots, self.memory + other.memory, self.cores + other.cores)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.slots - other.slots, self.memory - other.memory, self.cores - other.cores)

    def most(self, other: Amount) -> Amount:
        """Return the larger of the two in each dimension."""
        return Amount(max(self.slots, other.slots), max(self.memory, other.memory), max(self.cores, other.cores))


@dataclass(frozen=True, slots=True)
class Container:
    """A container and the number of cards that the kubelet hands out to it."""

    name: str
    cards: int
    init: bool = False
    sidecar: bool = False


def containers(pod: Object, vendor: Vendor) -> list[Container]:
    """Return all containers in the order of the annotation's entries."""
    spec = pod["spec"]
    found = []
    for listed, init in (("initContainers", True), ("containers", False)):
        for one in spec.get(listed) or ():
            amount = int((one.get("resources") or {}).get("limits", {}).get(vendor.count, "0"))
            sidecar = init and one.get("restartPolicy") == "Always"
            cards = min(amount, 1) if vendor.slices else amount
            found.append(Container(one["name"], cards, init and not sidecar, sidecar))
    return found


def entries(value: str) -> list[str]:
    """Split an annotation into its entries; the last one is the empty rest after the final semicolon."""
    return value.split(";")


def blank_first(value: str) -> tuple[str, str]:
    """Remove the first non-empty entry; return it, and the value that the plugin writes back."""
    parts = entries(value)
    for index, part in enumerate(parts):
        if part:
            parts[index] = ""
            return part, "".join(f"{one};" for one in parts)
    return "", "".join(f"{one};" for one in parts)


def devices(entry: str) -> list[tuple[str, Amount]]:
    """Decode one container's entry.

    Raises
    ------
    ValueError
        For a malformed entry.
    """
    found = []
    for part in filter(None, entry.split(":")):
        fields = part.split(",")
        if len(fields) < 4:
            raise ValueError(f"malformed device {part!r}")
        found.append((fields[0], Amount(1, int(fields[2]), int(fields[3]))))
    return found


def usage(pod: Object, vendor: Vendor) -> dict[str, Amount]:
    """Return a pod's usage of each card: the larger of the init containers' peak and the sum of the others."""
    annotations = pod["metadata"].get("annotations") or {}
    value = annotations.get(vendor.allocated, "")
    sizes = json.loads(annotations.get(vendor.slices) or "{}") if vendor.slices else {}
    peak: dict[str, Amount] = {}
    total: dict[str, Amount] = {}
    for container, entry in zip(containers(pod, vendor), entries(value), strict=False):
        amounts: dict[str, Amount] = {}
        for name, handed in devices(entry):
            card = name.partition("[")[0]  # a MIG instance is named after its card
            slots = sizes[container.name]["request"] if container.name in sizes else handed.slots
            amount = replace(handed, slots=slots)
            amounts[card] = amounts.get(card, Amount()) + amount
        for card, amount in amounts.items():
            if container.init:
                peak[card] = peak.get(card, Amount()).most(amount + total.get(card, Amount()))
            else:
                total[card] = total.get(card, Amount()) + amount
    return {card: total.get(card, Amount()).most(peak.get(card, Amount())) for card in {*peak, *total}}
