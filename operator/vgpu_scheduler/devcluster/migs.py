"""What HAMi's NVIDIA plugin does with MIG cards: it makes the instances that a pod's placements name.

Plugins since 2.10 read placements; older ones read the instance from the name of the card, ``UUID[template-instance]``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from .allocation import devices, entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cards import Card
    from .makers import Maker

Object = dict[str, Any]

PLACEMENTS = "hami.io/vgpu-mig-allocations"
_INSTANCE = re.compile(r"(?P<uuid>.*)\[(?P<template>\d+)-(?P<instance>\d+)\]")


def physical(name: str) -> str:
    """Return the card that an entry is about."""
    match = _INSTANCE.fullmatch(name)
    return match["uuid"] if match else name


def check_instances(pod: Object, maker: Maker, cards: Mapping[str, Card]) -> tuple[list[str], dict[str, str]]:
    """Hold a pod's placements against its entries; return what is wrong, and the annotations to be noted on it."""
    annotations = pod["metadata"].get("annotations") or {}
    listed = json.loads(annotations.get(PLACEMENTS) or "[]")
    problems = []
    placed = Counter((entry["containerIndex"], entry["gpuUUID"]) for entry in listed)
    given: Counter[tuple[int, str]] = Counter()
    for number, entry in enumerate(entries(annotations.get(maker.allocated, ""))):
        for name, _ in devices(entry):
            card = cards.get(physical(name))
            if card is not None and card.mode == "mig" and name == card.uuid:
                given[number, card.uuid] += 1
    if placed != given:
        problems.append(f"placements {dict(placed)} do not match the devices {dict(given)}")
    for entry in listed:
        span = entry["placement"]
        if span["start"] + span["size"] > 8 or entry["profile"] == "":
            problems.append(f"placement {entry} is on no card")
    made = [
        {**entry, "migUUID": f"MIG-{entry['gpuUUID']}-{entry['placement']['start']}", "gpuInstanceID": number + 1,
         "computeInstanceID": 0}
        for number, entry in enumerate(listed)
    ]  # fmt: skip
    return problems, {PLACEMENTS: json.dumps(made)} if made else {}
