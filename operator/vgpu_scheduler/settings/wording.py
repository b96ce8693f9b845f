"""What is wrong with settings that do not validate, in words of ours: what must be there, and what is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from vgpu_scheduler.model import did_you_mean, quoted
from vgpu_scheduler.settings.model import Settings

_NUMBER, _WHOLE, _TEXT, _MAP, _LIST = "a number", "a whole number", "a text", "a map of settings", "a list"
_MUST_BE: Final[Mapping[str, str]] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a map",
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
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "list_type": _LIST,
    "literal_error": "one of {expected}",
    "mapping_type": "a map",
    "model_attributes_type": _MAP,
    "model_type": _MAP,
    "path_type": "the name of a file",
    "string_type": _TEXT,
    "tuple_type": _LIST,
}
"""By the type of an error, what a value must be."""


def worded(error: ErrorDetails) -> str:
    """Say what is wrong with a value, without the name of its setting; one that is not known may be meant otherwise."""
    kind, place, context = error["type"], error["loc"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"there is no such setting{did_you_mean(str(place[-1]), _names_in(place[:-1]))}"
    if kind == "value_error":
        return str(context["error"])
    given = _worded(error["input"])
    if kind in _MUST_BE:
        return f"{given} is not {_MUST_BE[kind].format(**context)}"
    if kind == "string_pattern_mismatch":
        return f"{given} does not match {context['pattern']}"
    return "it is empty" if kind == "too_short" else f"{given}: {error['msg']}"


def path_of(error: ErrorDetails) -> tuple[str, ...]:
    """Return the path to the setting that an error is about."""
    return tuple(map(str, error["loc"]))


def _worded(given: Any) -> str:
    if given is None:
        return "nothing"
    return str(given).lower() if isinstance(given, bool) else quoted(given)


def _names_in(section: tuple[int | str, ...]) -> list[str]:
    """Return the settings of a section."""
    model: type[BaseModel] = Settings
    for name in section:
        field = model.model_fields.get(str(name))
        if field is None or not isinstance(field.default, BaseModel):
            return []
        model = type(field.default)
    return list(model.model_fields)
