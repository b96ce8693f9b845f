"""MIG cards as in HAMi 2.10: the profiles that nodes register, and the placements that pods hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.fields import INT64, Fields, decode_list
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.model import Amounts, Assignment, ContainerAssignments, DimensionRoles, Piece

SLICES = 8
"""The maximum number of memory slices of a card of any known model."""
PLACEMENTS = 3
SCHEMA = DimensionRoles(placements=PLACEMENTS, slices=range(PLACEMENTS + 1, PLACEMENTS + 1 + SLICES))
"""The schema of all NVIDIA cards, in MIG mode or not, so that a placement on a card without slices is detected."""
_UINT32 = 2**32 - 1
_FROM_THE_END = ("1g.", "3g.")
"""Profiles that are placed at the highest free start, which leaves room for the others at the lowest."""


@dataclass(frozen=True, slots=True)
class SliceSpan:
    """A run of memory slices."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One kind of instance, as registered: memory in MiB, cores in percent; placements may be missing (None)."""

    name: str = ""
    memory: int = 0
    cores: int = 0
    slices: int = 0
    placements: tuple[SliceSpan, ...] | None = None


@dataclass(frozen=True, slots=True)
class MigAllocation:
    """One placement that a pod holds.

    Attributes
    ----------
    container, device
        Index of the container (init containers first) and of the device within it.
    uuid, profile, place
        The card, the kind of instance, and the slices of the card that it covers.
    instance
        The instance that the device plugin created for it: UUID, GPU instance, compute instance; None before.
    """

    container: int
    device: int
    uuid: str
    profile: str
    place: SliceSpan
    instance: tuple[str, int, int] | None = None


def decode_profiles(device: Fields) -> tuple[MigProfile, ...]:
    """Decode the profiles of one registered device."""
    return tuple(
        MigProfile(
            name=fields.text("name"),
            memory=fields.integer("memorymb", -INT32 - 1, INT32),
            cores=fields.integer("core", -INT32 - 1, INT32),
            slices=fields.integer("slicecount", -INT32 - 1, INT32),
            placements=_spans(fields.objects("placements")),
        )
        for fields in device.objects("migprofiles") or ()
    )


def _spans(objects: list[Fields] | None) -> tuple[SliceSpan, ...] | None:
    return None if objects is None else tuple(map(_span, objects))


def _span(fields: Fields) -> SliceSpan:
    return SliceSpan(fields.integer("start", 0, _UINT32), fields.integer("size", 0, _UINT32))


def encode_profile(profile: MigProfile) -> dict[str, Any]:
    """Encode a profile as HAMi does."""
    placements = None if profile.placements is None else list(map(_encode_span, profile.placements))
    return {
        "name": profile.name,
        "memoryMB": profile.memory,
        "core": profile.cores,
        "sliceCount": profile.slices,
        "placements": placements,
    }


def _encode_span(span: SliceSpan) -> dict[str, int]:
    return {"start": span.start, "size": span.size}


def pieces_of(profiles: Sequence[MigProfile]) -> tuple[Piece, ...]:
    """Return the pieces for a card with these profiles, in HAMi's order of preference.

    Profiles are sorted by memory, then by slices, then as listed; the placements of a profile by ascending start, or
    descending for profiles with one or three compute slices.

    Raises
    ------
    CodecError
        If a placement is beyond any card.
    """
    pieces = []
    for profile in sorted(profiles, key=lambda profile: (profile.memory, profile.slices)):
        backwards = profile.name.startswith(_FROM_THE_END)
        spans = [span for span in profile.placements or () if span.size]
        for span in sorted(spans, key=lambda span: span.start, reverse=backwards):
            if span.start + span.size > SLICES:
                raise CodecError(f"profile {profile.name}: slices {span.start} to {span.start + span.size - 1}"
                                 f" are beyond the {SLICES} of a card")  # fmt: skip
            amounts = (1, max(profile.memory, 0), max(profile.cores, 0), 1, *slices_of([span]))
            pieces.append(Piece(profile.name, span.start, span.size, amounts))
    return tuple(pieces)


def slices_of(spans: Iterable[SliceSpan]) -> Amounts:
    """Return for each slice whether these spans cover it: 1 or 0.

    If a span is invalid, all slices are 2, which exceeds any card and so closes it.
    """
    covered = [0] * SLICES
    for span in spans:
        if not span.size or span.start + span.size > SLICES:
            return (2,) * SLICES
        covered[span.start : span.start + span.size] = [1] * span.size
    return tuple(covered)


def decode_allocations(value: str) -> list[MigAllocation]:
    """Decode the annotation ``hami.io/vgpu-mig-allocations``; it may be empty.

    Raises
    ------
    CodecError
        If any entry is malformed, incomplete, listed twice, or has only a part of an instance.
    """
    if not value:
        return []
    found: dict[tuple[int, int], MigAllocation] = {}
    for number, fields in enumerate(decode_list(value, "MIG allocations", "placement")):
        entry = _allocation(fields, number)
        key = (entry.container, entry.device)
        if key in found:
            raise CodecError(f"MIG allocations: container {key[0]}, device {key[1]} is listed twice")
        found[key] = entry
    return list(found.values())


def _allocation(fields: Fields, number: int) -> MigAllocation:
    places = fields.object("placement")
    entry = MigAllocation(
        container=fields.integer("containerindex"),
        device=fields.integer("deviceindex"),
        uuid=fields.text("gpuuuid"),
        profile=fields.text("profile"),
        place=_span(places) if places else SliceSpan(0, 0),
        instance=_instance(fields, number),
    )
    if entry.container < 0 or entry.device < 0 or not entry.uuid or not entry.profile or not entry.place.size:
        raise CodecError(f"MIG allocations: placement {number} is incomplete")
    return entry


def _instance(fields: Fields, number: int) -> tuple[str, int, int] | None:
    uuid, names = fields.text("miguuid"), ("gpuinstanceid", "computeinstanceid")
    gpu, compute = (fields.integer(name, 0, INT64) for name in names)
    present = [bool(uuid), *(name in fields for name in names)]
    if any(present) and not all(present):
        raise CodecError(f"MIG allocations: placement {number} has a part of an instance only")
    return (uuid, gpu, compute) if uuid else None


def encode_allocations(allocations: Sequence[MigAllocation]) -> str:
    """Encode the annotation as HAMi does: its key order, no blanks."""
    return json.dumps([_encode(entry) for entry in allocations], separators=(",", ":"), ensure_ascii=False)


def _encode(entry: MigAllocation) -> dict[str, Any]:
    written: dict[str, Any] = {
        "containerIndex": entry.container,
        "deviceIndex": entry.device,
        "gpuUUID": entry.uuid,
        "profile": entry.profile,
        "placement": _encode_span(entry.place),
    }
    if entry.instance is not None:
        written |= dict(zip(("migUUID", "gpuInstanceID", "computeInstanceID"), entry.instance, strict=True))
    return written


def allocations_of(containers: Sequence[ContainerAssignments]) -> list[MigAllocation]:
    """Return the placements among the devices that a pod gets."""

    def made(container: int, device: int, assignment: Assignment, piece: Piece) -> MigAllocation:
        return MigAllocation(container, device, assignment.uuid, piece.profile, SliceSpan(piece.start, piece.size))

    return [
        made(container, device, assignment, assignment.piece)
        for container, assignments in enumerate(containers)
        for device, assignment in enumerate(assignments)
        if assignment.piece is not None and assignment.piece.template is None
    ]
