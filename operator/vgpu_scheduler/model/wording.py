"""What is wrong with values that do not validate, in plain words: what is there, and what must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from vgpu_scheduler.model.texts import quoted

_NUMBER, _WHOLE, _TEXT, _MAP, _LIST = "a number", "a whole number", "a text", "a map", "a list"
_MUST_BE: Final[Mapping[str, str]] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": _MAP,
    "enum": "one of {expected}",
    "finite_number": _NUMBER,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "is_instance_of": _LIST,
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "list_type": _LIST,
    "literal_error": "one of {expected}",
    "mapping_type": _MAP,
    "model_attributes_type": _MAP,
    "model_type": _MAP,
    "path_type": "the name of a file",
    "string_type": _TEXT,
    "tuple_type": _LIST,
}
"""By the type of an error, what a value must be."""


def worded(error: ErrorDetails) -> str:
    """Say what is wrong with a value, without the name of its field."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "is required"
    given = _given(error["input"])
    if kind in _MUST_BE:
        return f"{given} is not {_MUST_BE[kind].format(**context)}"
    if kind == "string_pattern_mismatch":
        return f"{given} does not match {context['pattern']}"
    return "it is empty" if kind == "too_short" else f"{given}: {error['msg']}"


def _given(value: Any) -> str:
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else quoted(value)
