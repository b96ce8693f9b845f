"""MIG in HAMi's NVIDIA plugin, which creates the instances that a pod's placements name.

Plugins since 2.10 read placements; older ones read the instance from the card's name, ``UUID[template-instance]``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from .allocation import containers, devices, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .cards import Card
    from .vendors import Vendor

Object = dict[str, Any]

PLACEMENTS = "hami.io/vgpu-mig-allocations"
_INSTANCE = re.compile(r"(?P<uuid>.*)\[(?P<template>\d+)-(?P<instance>\d+)\]")
_NO_TEMPLATE = -1


@dataclass(frozen=True, slots=True)
class Instance:
    """A pod's part of a MIG card: slices, or one instance of a template.

    Attributes
    ----------
    card
        The card's UUID.
    start, size
        The slices; for a template, the number of the instance and 1.
    template
        The number of the template; -1 for a placement.
    init
        Whether it belongs to an init container, so that it is gone before instances of app containers are created.
    """

    card: str
    start: int
    size: int
    template: int = _NO_TEMPLATE
    init: bool = False

    def __str__(self) -> str:
        if self.template == _NO_TEMPLATE:
            return f"slices {self.start} to {self.start + self.size - 1}"
        return f"instance {self.template}-{self.start}"

    def clashes(self, other: Instance) -> bool:
        """Tell whether a card cannot have both: they overlap, or belong to different templates."""
        if self.card != other.card:
            return False
        meet = self.start < other.start + other.size and other.start < self.start + self.size
        return meet or self.template != other.template


def physical(name: str) -> str:
    """Return the UUID of an entry's card."""
    match = _INSTANCE.fullmatch(name)
    return match["uuid"] if match else name


def instances(pod: Object, vendor: Vendor) -> list[Instance]:
    """Return a pod's parts of MIG cards."""
    annotations = pod["metadata"].get("annotations") or {}
    init = [container.init for container in containers(pod, vendor)]
    found = [
        Instance(
            entry["gpuUUID"],
            entry["placement"].get("start", 0),
            entry["placement"]["size"],
            init=entry["containerIndex"] < len(init) and init[entry["containerIndex"]],
        )
        for entry in _placements(pod)
    ]
    for gone, entry in zip(init, entries(annotations.get(vendor.allocated, "")), strict=False):
        for name, _ in devices(entry):
            if match := _INSTANCE.fullmatch(name):
                found.append(Instance(match["uuid"], int(match["instance"]), 1, int(match["template"]), gone))
    return found


def clashes(own: Iterable[Instance], others: Iterable[Instance]) -> list[tuple[Instance, Instance]]:
    """Return pairs of instances that cannot coexist, within a pod's own and between these and others."""
    own = list(own)
    together = combinations([instance for instance in own if not instance.init], 2)
    return [
        *((one, two) for one, two in together if one.clashes(two)),
        *((one, two) for two in others for one in own if one.clashes(two)),
    ]


def check_instances(pod: Object, vendor: Vendor, cards: Mapping[str, Card]) -> tuple[list[str], dict[str, str]]:
    """Compare a pod's placements with its entries; return problems, and annotations to write on the pod."""
    annotations = pod["metadata"].get("annotations") or {}
    listed = _placements(pod)
    problems = []
    placed = Counter((entry["containerIndex"], entry["gpuUUID"]) for entry in listed)
    given: Counter[tuple[int, str]] = Counter()
    for number, entry in enumerate(entries(annotations.get(vendor.allocated, ""))):
        for name, _ in devices(entry):
            card = cards.get(physical(name))
            if card is not None and card.mode == "mig" and name == card.uuid:
                given[number, card.uuid] += 1
    if placed != given:
        problems.append(f"placements {dict(placed)} do not match the devices {dict(given)}")
    for place in listed:
        span = place["placement"]
        if span["start"] + span["size"] > 8 or place["profile"] == "":
            problems.append(f"placement {place} is on no card")
    made = [
        {**entry, "migUUID": f"MIG-{entry['gpuUUID']}-{entry['placement']['start']}", "gpuInstanceID": number + 1,
         "computeInstanceID": 0}
        for number, entry in enumerate(listed)
    ]  # fmt: skip
    return problems, {PLACEMENTS: json.dumps(made)} if made else {}


def _placements(pod: Object) -> list[Object]:
    annotations = pod["metadata"].get("annotations") or {}
    return list(json.loads(annotations.get(PLACEMENTS) or "[]"))
