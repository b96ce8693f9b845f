"""Objects beside nodes that list their devices, as far as they are understood here: whose they are, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """The object of one node; it has the node's name.

    Attributes
    ----------
    content
        The object as JSON; a dialect reads it.
    """

    name: str
    content: Mapping[str, Any]
    uid: str = ""
    resource_version: int = 0
