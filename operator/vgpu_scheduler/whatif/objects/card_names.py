"""The names in which pods ask for cards, in any dialect: those of the settings, and the others that there are."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Final

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.kube import Pod

__all__ = ["asks_for_cards", "card_names"]

_UNNAMED: Final = ""
_OTHER_CARDS: Final = re.compile(r"gpu\.|[^/]+/(mig-|gpu)")
"""As in ``nvidia.com/mig-1g.10gb``, ``nvidia.com/gpu.shared``, ``amd.com/gpu`` and ``gpu.intel.com/i915``."""


def card_names(dialects: Dialects) -> Mapping[str, str]:
    """Return the resources of cards with the dialect that has them as names of its own.

    Parameters
    ----------
    dialects
        Those of the settings: what they name is theirs first.
    """
    served = {name: _UNNAMED for each in dialects for name in each.inventory.device_resources}
    return (
        _of_others() | served | {name: each.name for each in reversed(list(dialects)) for name in each.claims.resources}
    )


@lru_cache(maxsize=1)
def _of_others() -> dict[str, str]:
    return {resource: name for name in reversed(list(DIALECTS)) for resource in DIALECTS[name]().claims.resources}


def asks_for_cards(names: Container[str], pod: Pod) -> bool:
    """Tell whether a pod asks for cards: by one of these names, or as other device plugins call cards."""
    return any(amount and (name in names or _OTHER_CARDS.match(name)) for name, amount in pod.spec.requests.items())
