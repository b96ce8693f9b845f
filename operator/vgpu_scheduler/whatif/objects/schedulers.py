"""Find misspelt scheduler names in pods."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vgpu_scheduler.admission import DEFAULT_SCHEDULER
from vgpu_scheduler.model import closest

_ALIKE: Final = 0.8
"""The similarity, from 0 to 1, of a misspelt name; it is high because scheduler names have similar endings."""


def meant_scheduler(named: str, ours: Collection[str], neighbours: Collection[str]) -> str:
    """Return the one of our scheduler names that an unknown name most likely means; empty if none is similar."""
    known = {DEFAULT_SCHEDULER, *neighbours, *ours}
    meant = closest(named, known, _ALIKE)
    return meant if meant in ours and named not in known else ""
