"""Safe access to untyped JSON, whose values may have any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a value if it is a list, else an empty list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
