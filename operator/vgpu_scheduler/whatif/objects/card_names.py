"""The resource names for cards in every dialect: those of the settings, and those of other dialects."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import Final

from vgpu_scheduler.dialects import Dialect, Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import MIB

_UNNAMED: Final = ""
_OTHER_CARDS: Final = re.compile(r"gpu\.|[^/]+/(mig-|gpu)")
"""As in ``nvidia.com/mig-1g.10gb``, ``nvidia.com/gpu.shared``, ``amd.com/gpu`` and ``gpu.intel.com/i915``."""


def card_names(dialects: Dialects) -> Mapping[str, str]:
    """Return the resource names of cards, each with the dialect in which pods ask by it.

    Parameters
    ----------
    dialects
        The dialects of the settings; they take precedence over others for a name.
    """
    served = {name: _UNNAMED for each in dialects for name in each.inventory.device_resources}
    return (
        _of_others() | served | {name: each.name for each in reversed(list(dialects)) for name in each.claims.resources}
    )


@lru_cache(maxsize=1)
def _of_others() -> dict[str, str]:
    return {resource: name for name in reversed(list(DIALECTS)) for resource in DIALECTS[name]().claims.resources}


def is_of_other_plugins(name: str) -> bool:
    """Tell whether a resource name looks like cards by the names of other device plugins."""
    return _OTHER_CARDS.match(name) is not None


def asks_for_cards(names: Container[str], pod: Pod) -> bool:
    """Tell whether a pod asks for cards, by one of these names or by a name that other device plugins use."""
    return any(amount and (name in names or is_of_other_plugins(name)) for name, amount in pod.spec.requests.items())


def unit_of(dialects: Iterable[Dialect], resource: str) -> str:
    """Return the unit of a resource for card memory, if it is more than 1 MiB; else empty."""
    for dialect in dialects:
        inventory, limited = dialect.inventory, dialect.allocation.quota_resources.get(resource)
        about = inventory.device_resources.get(resource)
        if about is not None and about.dimension == inventory.memory and not about.percent:
            mebibytes = inventory.memory_unit // MIB * (1 if limited is None else limited.unit)
            return f"in units of {mebibytes} MiB" if mebibytes > 1 else ""
    return ""
