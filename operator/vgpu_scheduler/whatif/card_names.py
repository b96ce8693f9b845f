"""The names in which pods ask for cards, in any dialect: those of the settings, and the others that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.kube import Pod

__all__ = ["asks_for_cards", "card_names"]

_UNNAMED: Final = ""
_GPU: Final = "gpu."


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


def asks_for_cards(names: Iterable[str], pod: Pod) -> bool:
    """Tell whether a pod asks for cards: by one of these names, or by another one of those whose names they are.

    So ``nvidia.com/mig-1g.10gb`` counts, which NVIDIA's own device plugin has, and ``gpu.intel.com/i915``.
    """
    domains = {_domain(name) for name in names}
    asked = (name for name, amount in pod.spec.requests.items() if amount)
    return any((domain := _domain(name)) and (domain in domains or domain.startswith(_GPU)) for name in asked)


def _domain(resource: str) -> str:
    """Return the part of a resource's name before the slash; empty without one."""
    return resource.partition("/")[0] if "/" in resource else ""
