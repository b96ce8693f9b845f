"""What Koordinator's webhook makes of the resources of containers, in plain Python: each container by itself.

A pod's ``koordinator.sh/gpu`` becomes compute and a ratio of memory, and how many cards share it is written where it is
not said. With a quirk switched off, the twin leaves alone what that quirk is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.naive.hami_quirks import Switches
from tests.naive.koordinator_quirks import KoordinatorQuirk

GPU = "koordinator.sh/gpu"
CORES, MEMORY, RATIO = f"{GPU}-core", f"{GPU}-memory", f"{GPU}-memory-ratio"
SHARED = f"{GPU}.shared"
_NAMES = (GPU, CORES, MEMORY, RATIO, SHARED)
_CARD = 100
"""Percent of a card."""


def mutated(containers: list[dict[str, Any]], switch: Switches) -> list[dict[str, Any]]:
    """Return the resources of a pod's containers as the webhook leaves them.

    Parameters
    ----------
    containers
        The ``resources`` of each.
    """
    asking = [each for each in containers if any(name in part for part in each.values() for name in _NAMES)]
    return [{part: _part(amounts, len(asking), switch) for part, amounts in each.items()} for each in containers]


def _part(amounts: Mapping[str, str], asking: int, switch: Switches) -> dict[str, str]:
    found = dict(amounts)
    if GPU in found:
        beside = any(name in found for name in (CORES, MEMORY, RATIO, SHARED))
        if beside and not switch(KoordinatorQuirk.WEBHOOK_OVERWRITES):
            return found
        if not int(found[GPU]) and not switch(KoordinatorQuirk.WEBHOOK_SHARES_NOTHING):
            return found
        found[CORES] = found[RATIO] = found.pop(GPU)
    if SHARED in found or not any(name in found for name in (CORES, MEMORY, RATIO)):
        return found
    if asking > 1 and not switch(KoordinatorQuirk.WEBHOOK_BY_CONTAINER):
        return found
    percent = int(found.get(RATIO, "0")) or int(found.get(CORES, "0"))
    found[SHARED] = str(percent // _CARD) if percent > _CARD and percent % _CARD == 0 else "1"
    return found
