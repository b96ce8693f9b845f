"""MIG cards as HAMi 2.5 to 2.9 has them: cut by one template at a time, instances named ``UUID[template-instance]``.

The first allocation on a card chooses the template, later ones find an instance of it that is free (D2-51 to D2-54). So
a template is a weight of placements (:mod:`vgpu_scheduler.kernels.pieces`), and an instance is one slice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vgpu_scheduler.dialects.hami.mig import SLICES, Span, slices_of
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import MOST_INSTANCES, MOST_TEMPLATES, Template
from vgpu_scheduler.model import Amounts, Piece

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
