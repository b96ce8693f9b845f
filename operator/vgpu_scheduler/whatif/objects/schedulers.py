"""Names of schedulers that are nobody's, and which of ours is meant by them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vgpu_scheduler.admission import DEFAULT_SCHEDULER
from vgpu_scheduler.model import closest

__all__ = ["meant_scheduler"]

_ALIKE: Final = 0.8
"""How alike a name is to another one that is meant, from 0 to 1: other schedulers' names end alike, too."""


def meant_scheduler(named: str, ours: Collection[str], neighbours: Collection[str]) -> str:
    """Return which of our names is meant by one that is much like it and nobody's; empty where none is."""
    known = {DEFAULT_SCHEDULER, *neighbours, *ours}
    meant = closest(named, known, _ALIKE)
    return meant if meant in ours and named not in known else ""
