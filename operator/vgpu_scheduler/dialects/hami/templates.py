"""Templates that MIG cards are cut by, one at a time: those of HAMi 2.5 to 2.9 and of Volcano."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.dialects.hami.mig import PLACEMENTS, SLICES, SliceSpan, slices_of
from vgpu_scheduler.model import Amounts, Device, Piece

MOST_TEMPLATES = MOST_INSTANCES = 8
Template = tuple[tuple[str, int, int], ...]
"""Kinds of instances: name, memory in MiB, how many."""


SMALLEST_INSTANCE = 4864
"""MiB of the smallest instance that there is: 1g.5gb of an A100 with 40 GB."""


@dataclass(frozen=True, slots=True)
class MigGeometry:
    """The templates that a plugin cuts MIG cards of some models by, one at a time.

    Attributes
    ----------
    models
        Parts of model names.
    templates
        In the order in which they are tried.
    names
        What allocations call them, each once; empty where they are known by their numbers.
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
    """Return the least memory of the instances of some geometries; 0 where there are none."""
    instances = (each for geometry in geometries for template in geometry.templates for each in template)
    return min((memory for _, memory, _ in instances), default=0)


def geometry_of(geometries: Sequence[MigGeometry], model: str) -> MigGeometry | None:
    """Return the first entry that names a part of a model; None without one."""
    return next((entry for entry in geometries if any(part in model for part in entry.models)), None)


def templates_of(geometries: Sequence[MigGeometry], model: str) -> tuple[Template, ...]:
    """Return the templates of cards of a model; none where it is not known."""
    found = geometry_of(geometries, model)
    return () if found is None else found.templates


_MOST_SHARES = 1024
"""Shares of a card that its templates are counted for: weights of placements must stay far below int64's bounds."""


def cut(whole: Device, pieces: tuple[Piece, ...], possible: Sequence[Piece]) -> Device:
    """Return a card that is given out in pieces.

    Parameters
    ----------
    whole
        The card with its slots, memory and cores.
    pieces
        Those that it may be given out in.
    possible
        Those that it can be cut into: pods may hold any of them.
    """
    weight = max((piece.amounts[PLACEMENTS] for piece in possible), default=1)
    slices = slices_of(SliceSpan(piece.start, piece.size) for piece in possible)
    total: Amounts = (*whole.total, weight * min(max(whole.total[0], 1), _MOST_SHARES), *slices)
    return replace(whole, total=total, pieces=pieces)


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
    return (_SHARES ** (template + 1), *slices_of([SliceSpan(instance, 1)]))


def recorded(uuid: str, piece: Piece | None) -> str:
    """Return how an instance is named in the allocation of a pod."""
    return uuid if piece is None or piece.template is None else f"{uuid}[{piece.template}-{piece.start}]"


def instance_of(name: str) -> tuple[str, Amounts]:
    """Return the card that an entry names, and what it books of placements and slices; nothing without a suffix."""
    match = _RECORDED.fullmatch(name)
    if match is None:
        return name, ()
    return match["uuid"], placed(int(match["template"]), int(match["instance"]))
