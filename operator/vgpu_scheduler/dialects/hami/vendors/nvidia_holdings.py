"""What a pod holds of its node's NVIDIA cards, by their MIG templates, from the annotations that tell which."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.codec import AssignedDevice
from vgpu_scheduler.dialects.hami.mig import SLICES, MigAllocation, Span, decode_allocations, slices_of
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import (
    MIG_ANNOTATION,
    MOST_INSTANCES,
    MOST_TEMPLATES,
    VENDOR,
    Template,
)
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import (
    Amounts,
    Assignment,
    Claim,
    ContainerClaims,
    ContainerKind,
    Piece,
    PodClaims,
    Usage,
    add,
    charges,
    makers,
)

_SHARES = 64
"""More shares than a card has of one template, so that no number of one weighs as much as fewer of the next."""
_RECORDED = re.compile(r"(?P<uuid>.*)\[(?P<template>[0-9]{1,9})-(?P<instance>[0-9]{1,9})\]", re.DOTALL)


def template_pieces(templates: Sequence[Template]) -> tuple[Piece, ...]:
    """Return the instances of all templates, in the order in which they are tried."""
    return tuple(
        Piece(name, slot, 1, (1, memory, 0, *placed(number, slot)), number)
        for number, template in enumerate(templates)
        for slot, (name, memory) in enumerate((name, memory) for name, memory, count in template for _ in range(count))
    )


def placed(template: int, instance: int) -> Amounts:
    """Return what an instance books of placements and slices; one that no card has, more than any card has."""
    if template >= MOST_TEMPLATES or instance >= MOST_INSTANCES:
        return (0, *(2,) * SLICES)
    return (_SHARES ** (template + 1), *slices_of([Span(instance, 1)]))


def recorded(uuid: str, piece: Piece | None) -> str:
    """Return how an instance is named in the allocation of a pod."""
    return uuid if piece is None or piece.template is None else f"{uuid}[{piece.template}-{piece.start}]"


def instance_of(name: str) -> tuple[str, Amounts]:
    """Return the card that an entry names, and what it books of placements and slices; nothing without a suffix."""
    match = _RECORDED.fullmatch(name)
    if match is None:
        return name, ()
    return match["uuid"], placed(int(match["template"]), int(match["instance"]))


_NOTHING = (0, 0, 0)
_ON_NO_CARD = (0,) * (len(_NOTHING) + 1) + (200,) * SLICES
_EVERY_MIG_CARD: PodClaims = (
    ContainerClaims("", ContainerKind.APP, (Claim(VENDOR, 1, (0,) * len(_ON_NO_CARD), _ON_NO_CARD),)),
)
"""Twice of every slice that a card has: a MIG card has that of none, the others have no slices."""


def held(vendor: str, pod: Pod, aligned: Sequence[Sequence[AssignedDevice]]) -> Usage:
    """Return what a pod uses.

    Placements belong to cards, not to entries: older writers shift the numbers of containers. Nothing that they leave
    open is taken for free. An entry on a MIG card needs a placement, and a placement a MIG card; what has none puts
    the card out of service (:mod:`vgpu_scheduler.kernels.pieces`). A placement on a card that the node does not
    list may be on any MIG card of the node, so it puts all of them out of service.

    Parameters
    ----------
    vendor
        NVIDIA's word.
    pod
        The pod; an annotation of placements that cannot be read counts as missing.
    aligned
        The entries of each container.
    """
    kinds = [container.kind for container in pod.spec.containers]
    entries = [[_assignment(vendor, entry) for entry in container] for container in aligned]
    charged, vendors = charges(kinds, entries), makers(entries)
    placements = _placements(pod.annotations)
    if not placements:
        return Usage(charged, vendors=vendors)
    numbers = Counter(assignment.uuid for container in entries for assignment in container)
    for uuid, listed in placements.items():
        used = charged.get(uuid, _NOTHING)
        explained = used[0] if len(listed) >= numbers[uuid] else 0
        # One that has both, a suffix and a placement, belongs to neither kind of card.
        charged[uuid] = add(used, (*_NOTHING, explained, *_slices(listed)))
    return Usage(charged, displaced=dict.fromkeys(placements, _EVERY_MIG_CARD), vendors=vendors)


def _assignment(vendor: str, entry: AssignedDevice) -> Assignment:
    uuid, instance = instance_of(entry.uuid)
    return Assignment(vendor, uuid, (1, entry.memory, entry.cores, *instance))


def _slices(placements: Sequence[MigAllocation]) -> Amounts:
    return slices_of(entry.place for entry in placements)


def _placements(annotations: Mapping[str, str]) -> dict[str, list[MigAllocation]]:
    """Return the placements of each card."""
    try:
        decoded = decode_allocations(annotations.get(MIG_ANNOTATION, ""))
    except CodecError:
        return {}
    found: dict[str, list[MigAllocation]] = {}
    for entry in decoded:
        found.setdefault(entry.uuid, []).append(entry)
    return found
