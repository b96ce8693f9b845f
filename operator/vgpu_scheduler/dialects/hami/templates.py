"""Templates for MIG cards, which follow one at a time: those of HAMi 2.5 to 2.9 and of Volcano."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.dialects.hami.mig import PLACEMENTS, SLICES, SliceSpan, slices_of
from vgpu_scheduler.model import Amounts, Device, Piece

MOST_TEMPLATES = MOST_INSTANCES = 8
Template = tuple[tuple[str, int, int], ...]
"""Kinds of instances: name, memory in MiB, number."""


SMALLEST_INSTANCE = 4864
"""MiB of the smallest existing instance: 1g.5gb of an A100 with 40 GB."""


@dataclass(frozen=True, slots=True)
class MigGeometry:
    """The templates for MIG cards of some models; a card follows one at a time.

    Attributes
    ----------
    models
        Substrings of model names.
    templates
        The templates in the order in which they are tried.
    names
        Their distinct names in allocations; empty if these use numbers.
    """

    models: tuple[str, ...]
    templates: tuple[Template, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = [sum(count for _, _, count in template) for template in self.templates]
        if not self.models or not all(self.models) or not sizes or len(sizes) > MOST_TEMPLATES:
            raise ValueError(f"models must be named, and 1 to {MOST_TEMPLATES} templates")
        if not all(0 < size <= MOST_INSTANCES for size in sizes):
            raise ValueError(f"a template has 1 to {MOST_INSTANCES} instances")
        if self.names and (len(set(self.names)) != len(self.templates) or len(self.names) != len(self.templates)):
            raise ValueError("each template has a name of its own")


def smallest_instance(geometries: Iterable[MigGeometry]) -> int:
    """Return the memory of the smallest instance of some geometries; 0 if there are none."""
    instances = (each for geometry in geometries for template in geometry.templates for each in template)
    return min((memory for _, memory, _ in instances), default=0)


def geometry_of(geometries: Sequence[MigGeometry], model: str) -> MigGeometry | None:
    """Return the first geometry that matches a model; None if there is none."""
    return next((entry for entry in geometries if any(part in model for part in entry.models)), None)


def templates_of(geometries: Sequence[MigGeometry], model: str) -> tuple[Template, ...]:
    """Return the templates of cards of a model; none for unknown models."""
    found = geometry_of(geometries, model)
    return () if found is None else found.templates


_MOST_SHARES = 1024
"""Limit of a card's slots in its number of placements, which keeps that far within int64."""


def cut(whole: Device, pieces: tuple[Piece, ...], possible: Sequence[Piece]) -> Device:
    """Return a card that is given out in pieces.

    Parameters
    ----------
    whole
        The card with its slots, memory and cores.
    pieces
        The pieces that may be given out.
    possible
        All pieces that it can be cut into; pods may already hold any of them.
    """
    weight = max((piece.amounts[PLACEMENTS] for piece in possible), default=1)
    slices = slices_of(SliceSpan(piece.start, piece.size) for piece in possible)
    total: Amounts = (*whole.total, weight * min(max(whole.total[0], 1), _MOST_SHARES), *slices)
    return replace(whole, total=total, pieces=pieces)


_SHARES = 64
"""More than the instances of a template, so that the weights of different templates cannot be confused."""
_RECORDED = re.compile(r"(?P<uuid>.*)\[(?P<template>[0-9]{1,9})-(?P<instance>[0-9]{1,9})\]", re.DOTALL)


def template_pieces(templates: Sequence[Template]) -> tuple[Piece, ...]:
    """Return the instances of all templates as pieces, in the order in which they are tried."""
    return tuple(
        Piece(name, slot, 1, (1, memory, 0, *booked_amounts(number, slot)), number)
        for number, template in enumerate(templates)
        for slot, (name, memory) in enumerate((name, memory) for name, memory, count in template for _ in range(count))
    )


def booked_amounts(template: int, instance: int) -> Amounts:
    """Return the placements and slices that an instance books; an impossible instance books more than any card has."""
    if template >= MOST_TEMPLATES or instance >= MOST_INSTANCES:
        return (0, *(2,) * SLICES)
    return (_SHARES ** (template + 1), *slices_of([SliceSpan(instance, 1)]))


def recorded(uuid: str, piece: Piece | None) -> str:
    """Return the name of a card, or of an instance of it, in the allocation of a pod."""
    return uuid if piece is None or piece.template is None else f"{uuid}[{piece.template}-{piece.start}]"


def instance_of(name: str) -> tuple[str, Amounts]:
    """Return the card that an entry names, and the placements and slices to book; none without an instance suffix."""
    match = _RECORDED.fullmatch(name)
    if match is None:
        return name, ()
    return match["uuid"], booked_amounts(int(match["template"]), int(match["instance"]))
