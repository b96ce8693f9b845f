"""The running operator: the loop, leader election, start-up, relists and shutdown.

Exports are imported at first use, so that commands that only read settings or device configurations start without
kopf.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vgpu_scheduler.runtime.elector import Elector, LeaseOptions
    from vgpu_scheduler.runtime.operator import Operator

__all__ = ["Elector", "LeaseOptions", "Operator"]

_HOMES = {"Elector": "elector", "LeaseOptions": "elector", "Operator": "operator"}


def __getattr__(name: str) -> Any:
    """Import an exported name at first use.

    Raises
    ------
    AttributeError
        If the module has no such name.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
