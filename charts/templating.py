"""Kubernetes objects with places that Helm fills in, and their text as a template.

An object is what YAML gives, in which the values below may stand instead of a plain one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import yaml


@dataclass(frozen=True)
class Text:
    """An expression that gives a scalar, written as it is."""

    expression: str


@dataclass(frozen=True)
class Block:
    """An expression that gives lines of YAML, indented below its key."""

    expression: str


@dataclass(frozen=True)
class Only:
    """An entry of a map or list that is there under a condition."""

    condition: str
    value: Any


@dataclass(frozen=True)
class Choice:
    """A value of a map or list that a condition chooses."""

    condition: str
    then: Any
    otherwise: Any


@dataclass(frozen=True)
class Each:
    """An element of a list for each of some values; in ``element`` the dot is the value."""

    values: str
    element: Any


def document(obj: Mapping[str, Any], condition: str = "") -> str:
    """Return the template of an object that is there under a condition."""
    body = "\n".join(_lines(obj, 0))
    return f"{{{{- if {condition} }}}}\n{body}\n{{{{- end }}}}" if condition else body


def _lines(value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(key, item, indent)
    else:
        for condition, items in groupby(value, lambda item: item.condition if isinstance(item, Only) else ""):
            lines = (line for item in items for line in _element(item.value if condition else item, indent))
            yield from _if(condition, lines, indent) if condition else lines


def _entry(key: str, value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, Only):
        yield from _if(value.condition, _entry(key, value.value, indent), indent)
    elif isinstance(value, Choice):
        then, otherwise = (_entry(key, item, indent) for item in (value.then, value.otherwise))
        yield from _if(value.condition, then, indent, otherwise)
    elif isinstance(value, Block):
        if key:
            yield f"{pad}{key}:"
        depth = indent + 2 if key else indent
        yield f"{' ' * depth}{{{{- {value.expression} | nindent {depth} }}}}"
    elif isinstance(value, Mapping | list) and value:
        yield f"{pad}{key}:"
        yield from _lines(value, indent + 2)
    else:
        yield from _scalar(f"{pad}{key}: ", value, indent + 2)


def _element(value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, Choice):
        then, otherwise = (_element(item, indent) for item in (value.then, value.otherwise))
        yield from _if(value.condition, then, indent, otherwise)
    elif isinstance(value, Each):
        yield f"{pad}{{{{- range {value.values} }}}}"
        yield from _element(value.element, indent)
        yield f"{pad}{{{{- end }}}}"
    elif isinstance(value, Mapping | list) and value:
        first, *rest = _lines(value, indent + 2)
        assert "{{-" not in first, "the first entry of an element is there without a condition"
        yield f"{pad}- {first.lstrip()}"
        yield from rest
    else:
        yield from _scalar(f"{pad}- ", value, indent + 2)


def _if(condition: str, then: Iterable[str], indent: int, otherwise: Iterable[str] = ()) -> Iterator[str]:
    pad = " " * indent
    yield f"{pad}{{{{- if {condition} }}}}"
    yield from then
    if other := list(otherwise):
        yield f"{pad}{{{{- else }}}}"
        yield from other
    yield f"{pad}{{{{- end }}}}"


def _scalar(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, Text):
        yield f"{head}{value.expression}"
    elif isinstance(value, str) and "\n" in value:
        yield f"{head}|{'' if value.endswith(chr(10)) else '-'}"
        yield from (f"{' ' * indent}{line}" if line else "" for line in value.rstrip("\n").split("\n"))
    else:
        text = yaml.safe_dump(value, width=math.inf, default_flow_style=True, allow_unicode=True)
        yield f"{head}{text.removesuffix('...' + chr(10)).rstrip()}"


# ------------------------------------------------------------------------------------------------------- patches


def merged(base: Any, patch: Any, condition: str) -> Any:
    """Return an object with a strategic merge patch that is in force under a condition.

    Lists whose elements have names are merged by them, all others are replaced, as Kubernetes does with the fields that
    the components of the manifests patch.
    """
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {
            key: merged(base[key], value, condition) if key in base else Only(condition, value)
            for key, value in patch.items()
        }
    if _named(base) and _named(patch):
        return _merged_lists(base, patch, condition)
    return base if base == patch else Choice(condition, patch, base)


def _named(value: Any) -> bool:
    """Tell whether a value is a list of objects with names; what is there under a condition has one, too."""
    items = [item.value if isinstance(item, Only) else item for item in value] if isinstance(value, list) else [None]
    return all(isinstance(item, dict) and "name" in item for item in items)


def _merged_lists(base: list[Any], patch: list[Any], condition: str) -> list[Any]:
    result = list(base)
    places = {item["name"]: place for place, item in enumerate(base) if not isinstance(item, Only)}
    for item in patch:
        place = places.get(item["name"])
        if place is None:
            result.append(Only(condition, item))
        else:
            result[place] = merged(base[place], item, condition)
    return result


def replaced(base: Any, operations: list[dict[str, Any]], condition: str) -> Any:
    """Return an object with the operations ``test`` and ``replace`` of a JSON patch, in force under a condition."""
    for operation in operations:
        path = operation["path"].strip("/").split("/")
        if operation["op"] == "test":
            assert _at(base, path) == operation["value"], f"{operation['path']} is not {operation['value']}"
        elif operation["op"] == "replace":
            base = _put(base, path, Choice(condition, operation["value"], _at(base, path)))
        else:
            raise ValueError(f"the operation {operation['op']} of a JSON patch cannot be rendered")
    return base


def _at(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value[int(part) if isinstance(value, list) else part]
    return value


def _put(value: Any, path: list[str], new: Any) -> Any:
    """Return a copy of a value with another one at a path."""
    if not path:
        return new
    place: Any = int(path[0]) if isinstance(value, list) else path[0]
    copy = value.copy()
    copy[place] = _put(value[place], path[1:], new)
    return copy


def put(base: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """Return an object with another value at a path such as ``/spec/replicas``, which may be that of a new key."""
    *parents, last = path.strip("/").split("/")
    parent = _at(base, parents)
    if isinstance(parent, dict) and last not in parent:
        return dict(_put(base, parents, {**parent, last: new}))
    return dict(_put(base, [*parents, last], new))
