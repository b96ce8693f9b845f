"""Selector expressions as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ONE_OF: Final = {"In": "in", "NotIn": "notin"}
_COMPARED: Final = {"Gt": ">", "Lt": "<"}


def describe_expression(term: Mapping[str, Any]) -> str:
    """Format one selector expression of an API object as kubectl does."""
    key, operator, values = term.get("key", ""), term.get("operator", ""), term.get("values") or ()
    if operator in _ONE_OF:
        return f"{key} {_ONE_OF[operator]} ({', '.join(map(str, values))})"
    if operator in _COMPARED:
        return f"{key} {_COMPARED[operator]} {', '.join(map(str, values))}"
    return f"!{key}" if operator == "DoesNotExist" else str(key)
