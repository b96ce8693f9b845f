"""Structural schemas of custom resources: defaults, pruning and validation.

A CustomResourceDefinition's types, bounds and defaults are applied with the API server's messages, as are its CEL rules
(:mod:`.cel`) and the uniqueness of lists of type set or map. Deliberately absent: formats, and transition rules
(``oldSelf``).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from .cel import CelError, compiled, holds
from .status import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_IN_HEAD = frozenset(("apiVersion", "kind", "metadata"))


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in the defaults of absent properties, all the way down."""
    if isinstance(value, dict):
        for name, part in (schema.get("properties") or {}).items():
            if name not in value and "default" in part:
                value[name] = part["default"]
            if name in value:
                apply_defaults(part, value[name])
        every = schema.get("additionalProperties")
        if isinstance(every, dict):
            for part in value.values():
                apply_defaults(every, part)
    elif isinstance(value, list):
        for item in value:
            apply_defaults(schema.get("items") or {}, item)


def prune(schema: Schema, value: Any, path: str = "", *, root: bool = False) -> list[str]:
    """Drop the fields that the schema does not know, and return their paths."""
    found: list[str] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += prune(schema.get("items") or {}, item, f"{path}[{index}]")
        return found
    if not isinstance(value, dict):
        return found
    known = schema.get("properties") or {}
    every = schema.get("additionalProperties")
    for name in sorted(value):
        if root and name in _IN_HEAD:
            continue
        where = _join(path, name)
        if name in known:
            found += prune(known[name], value[name], where)
        elif isinstance(every, dict):
            found += prune(every, value[name], where)
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and every is not True:
            del value[name]
            found.append(where)
    return found


def check(schema: Schema, value: Any, path: str = "", *, root: bool = False) -> Iterator[Cause]:
    """Yield what is wrong with a value, with the paths of the fields."""
    if value is None and schema.get("nullable"):
        return
    wrong = _type_problem(schema, value)
    if wrong:
        yield Cause("FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {wrong}", path or "<nil>")
        return
    if "enum" in schema and value not in schema["enum"]:
        yield Cause.unsupported(path, value, [str(word) for word in schema["enum"]])
    if isinstance(value, dict):
        yield from _check_object(schema, value, path, root=root)
    elif isinstance(value, list):
        yield from _check_sizes(schema, value, path, ("minItems", "maxItems"), "items")
        for number, item in enumerate(value):
            yield from check(schema.get("items") or {}, item, f"{path}[{number}]")
    elif isinstance(value, str):
        yield from _check_sizes(schema, value, path, ("minLength", "maxLength"), "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield Cause.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    elif not isinstance(value, bool):
        yield from _check_bounds(schema, value, path)


def check_rules(schema: Schema, value: Any, old: Any = None, path: str = "", *, root: bool = False) -> Iterator[Cause]:
    """Yield the CEL rules that a value breaks; unchanged parts of the value are not checked again."""
    if value is None or (value == old and not root):
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        try:
            if holds(rule["rule"], value):
                continue
            message = rule.get("message") or f"failed rule: {rule['rule']}"
        except CelError as error:
            message = f"rule evaluation error: {error}"
        where = (path + rule.get("fieldPath", "")).lstrip(".")
        yield Cause(rule.get("reason", "FieldValueInvalid"), f"Invalid value: {message}", where or "<nil>")
    for part, inner, before, where in _parts(schema, value, old, path, root=root):
        yield from check_rules(part, inner, before, where)


def check_unique(schema: Schema, value: Any, path: str = "", *, root: bool = False) -> Iterator[Cause]:
    """Yield the duplicates in lists of type set or map."""
    kind = schema.get("x-kubernetes-list-type")
    if isinstance(value, list) and kind in {"set", "map"}:
        keys, seen = schema.get("x-kubernetes-list-map-keys") or (), []
        for number, item in enumerate(value):
            identity = item if kind == "set" else {key: item.get(key) for key in keys if key in item}
            if identity in seen:
                yield Cause("FieldValueDuplicate", f"Duplicate value: {json.dumps(identity)}", f"{path}[{number}]")
            seen.append(identity)
    for part, inner, _, where in _parts(schema, value, None, path, root=root):
        yield from check_unique(part, inner, where)


def rules(schema: Schema) -> Iterator[str]:
    """Yield all rules of a schema."""
    yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations") or ())
    every = schema.get("additionalProperties")
    parts = [*(schema.get("properties") or {}).values(), schema.get("items"), every]
    for part in parts:
        if isinstance(part, dict):
            yield from rules(part)


def unreadable_rules(schema: Schema) -> Iterator[str]:
    """Yield why rules are not supported here."""
    for rule in rules(schema):
        try:
            compiled(rule)
        except CelError as error:
            yield str(error)


def _parts(schema: Schema, value: Any, old: Any, path: str, *, root: bool) -> Iterator[tuple[Schema, Any, Any, str]]:
    """Yield the parts of a value: schema, value, previous value and path."""
    if isinstance(value, list):
        before = old if isinstance(old, list) and len(old) == len(value) else [None] * len(value)
        for number, item in enumerate(value):
            yield schema.get("items") or {}, item, before[number], f"{path}[{number}]"
    elif isinstance(value, dict):
        known, every = schema.get("properties") or {}, schema.get("additionalProperties")
        earlier = old if isinstance(old, dict) else {}
        for name, part in value.items():
            if root and name in _IN_HEAD:
                continue
            if name in known:
                yield known[name], part, earlier.get(name), _join(path, name)
            elif isinstance(every, dict):
                yield every, part, earlier.get(name), f"{path}[{name}]"


def _check_object(schema: Schema, value: dict[str, Any], path: str, *, root: bool) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause.required(_join(path, name))
    yield from _check_sizes(schema, value, path, ("minProperties", "maxProperties"), "properties")
    known, every = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in value.items():
        if root and name in _IN_HEAD:
            continue
        if name in known:
            yield from check(known[name], part, _join(path, name))
        elif isinstance(every, dict):
            yield from check(every, part, f"{path}[{name}]")


def _check_sizes(schema: Schema, value: Any, path: str, keys: tuple[str, str], what: str) -> Iterator[Cause]:
    least, most = schema.get(keys[0]), schema.get(keys[1])
    if least is not None and len(value) < least:
        yield Cause.invalid(path, _shown(value), f"{path} in body should have at least {least} {what}")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} {what}", path)


def _check_bounds(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield Cause.invalid(path, value, f"{path} in body should be greater than or equal to {least}")
    if most is not None and value > most:
        yield Cause.invalid(path, value, f"{path} in body should be less than or equal to {most}")


def _type_problem(schema: Schema, value: Any) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if fits else "must be of type integer or string"
    kind = schema.get("type")
    if kind is None:
        return ""
    fits = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    return "" if fits else f"must be of type {kind}: {_shown(value)}"


def _shown(value: Any) -> str:
    return f'"{value}"'


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
