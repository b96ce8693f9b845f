"""What is where some JSON should hold something, whatever it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["mapping_of", "mappings_in"]


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a value that is a mapping, and an empty one in the place of any other."""
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a value that is a list; none in any other."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
