"""Checks of the annotations by which administrators take single cards out of service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.model import by_name, did_you_mean

NO_CARD = Diagnosis(
    "cordon-without-card",
    Severity.WARNING,
    "The annotation by which cards are taken out of service names a card that the node does not list. If the name is"
    " mistyped, pods still get the card that is meant; if the card is gone, the name is left over.",
    "Correct the name in the annotation (`vgpu-scheduler top cards` lists the cards that there are), or take it out.",
)
_ALIKE: Final = 0.9
"""How similar the names of two cards must be: UUIDs have much in common anyway."""


def cordons(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find names in cordon annotations that are no cards of the node; nodes that list no cards are left out."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for dialect in doctor_input.cluster_engine.engine.dialects:
        for key in dialect.inventory.cordons.values():
            owners[key].add(dialect.name)
    for node in doctor_input.nodes:
        devices = doctor_input.cluster_engine.devices(node.name)
        for key in sorted(owners.keys() & node.annotations.keys()):
            listed = [devices.get(name, ()) for name in sorted(owners[key])]
            if not any(listed):
                continue  # its registration may be what is wrong
            there = {device.uuid for each in listed for device in each}
            named = dict.fromkeys(name for word in node.annotations[key].split(",") if (name := word.strip()))
            if unknown := [name for name in named if name not in there]:
                message = f"its annotation {key} names {by_name('card', unknown)}, which the node does not list"
                homes = {home: name for name in unknown if (home := doctor_input.cluster_engine.homes.get(name))}
                elsewhere = "".join(f"; {name} is a card of node {home}" for home, name in homes.items())
                meant = did_you_mean(unknown[0], there, _ALIKE) if len(unknown) == 1 and not homes else ""
                yield NO_CARD.of(ObjectRef("Node", node.name), f"{message}{elsewhere}{meant}")


CHECKS = (Check("cordons", ("Node",), (NO_CARD,), cordons),)
