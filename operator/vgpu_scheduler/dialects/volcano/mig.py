"""MIG cards as Volcano's plugin cuts them: into named groups of instances, one group per card at a time.

An instance is a position in a group. It is booked as in HAMi: a group is a template, a position a slice.
"""

from __future__ import annotations

import re
from dataclasses import replace

from vgpu_scheduler.dialects.hami.mig import SCHEMA, SLICES
from vgpu_scheduler.dialects.hami.templates import MOST_TEMPLATES, booked_amounts, cut, geometry_of
from vgpu_scheduler.dialects.volcano.names import MODE_MIG, VolcanoRequests
from vgpu_scheduler.model import Amounts, Device, Dimension, Piece

DIMENSIONS = tuple(Dimension(f"{number} of its schema", "", internal=True) for number in range(1 + SLICES))
"""The further dimensions of dialects with MIG instances: placements and slices."""
_INSTANCE = re.compile(r"(?P<uuid>.*)\[(?P<group>[^\[\]]*)-(?P<position>[0-9]{1,9})\]", re.DOTALL)


def with_instances(device: Device, requests: VolcanoRequests) -> Device:
    """Return a card with its possible instances as pieces, if it is in MIG mode and its model is known.

    With configured geometries every card gets the schema for instances, so that usage by an instance that the card does
    not have closes the card.
    """
    if not requests.mig_geometries:
        return device
    device = replace(device, schema=SCHEMA)
    pieces = _pieces(requests, device.type) if device.mode == MODE_MIG else ()
    return cut(device, pieces, pieces) if pieces else device


def _pieces(requests: VolcanoRequests, model: str) -> tuple[Piece, ...]:
    """Return the instances of a model in Volcano's order: by group, then memory, then position."""
    found: list[Piece] = []
    geometry = geometry_of(requests.mig_geometries, model)
    for group, template in zip(geometry.names, geometry.templates, strict=True) if geometry else ():
        number = requests.groups.index(group)
        kinds = [(name, memory) for name, memory, count in template for _ in range(count)]
        of_group = [
            Piece(
                name, position, 1, (1, memory // requests.memory_factor, 0, *booked_amounts(number, position)), number
            )
            for position, (name, memory) in enumerate(kinds)
        ]
        found += sorted(of_group, key=lambda piece: (piece.amounts[1], piece.start))
    return tuple(found)


def instance_name(uuid: str, piece: Piece | None, requests: VolcanoRequests) -> str:
    """Return the name of a card, or of an instance of it, in allocations."""
    if piece is None or piece.template is None:
        return uuid
    return f"{uuid}[{requests.groups[piece.template]}-{piece.start}]"


def instance_of(name: str, requests: VolcanoRequests) -> tuple[str, Amounts]:
    """Return the card that an allocation names, and the placements and slices to book; none for whole cards.

    An unknown instance books more than any card has, so that the card is closed.
    """
    match = _INSTANCE.fullmatch(name)
    if match is None:
        return name.partition("[")[0], ()
    if not requests.mig_geometries:
        return match["uuid"], ()
    group = match["group"]
    number = requests.groups.index(group) if group in requests.groups else MOST_TEMPLATES
    return match["uuid"], booked_amounts(number, int(match["position"]))
