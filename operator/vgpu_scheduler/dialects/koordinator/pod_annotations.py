"""Validated access to JSON in pod annotations; unknown content is refused by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import msgspec

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.values import to_be_removed
from vgpu_scheduler.kube import LabelSelector, SelectorError, compile_label_selector
from vgpu_scheduler.model import quoted


class _RawExpression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] | None = None


class _RawSelector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_RawExpression] | None = None


def annotation_fields(annotations: Mapping[str, str], name: str, known: Collection[str]) -> Mapping[str, object]:
    """Return the fields of an annotation, which must be a JSON object; null counts as an empty one.

    Raises
    ------
    ClaimError
        If it is not a JSON object, or has an unknown field.
    """
    try:
        said = json.loads(annotations[name])
    except (ValueError, RecursionError):
        raise to_be_removed(name, " is not JSON") from None
    fields = fields_of({} if said is None else said, name, "it")
    refuse_unknown(fields, known, name)
    return fields


def fields_of(value: object, name: str, where: str) -> Mapping[str, object]:
    """Return the fields of an object in an annotation.

    Raises
    ------
    ClaimError
        If the value is not an object.
    """
    if not isinstance(value, Mapping):
        raise to_be_removed(name, f": {where} is not an object")
    return value


def refuse_unknown(fields: Collection[str], known: Collection[str], name: str, where: str = "") -> None:
    """Refuse unknown fields.

    Raises
    ------
    ClaimError
        If there is one; the message names the first.
    """
    if unknown := sorted(field for field in fields if field not in known):
        raise to_be_removed(name, f": {where}{quoted(unknown[0])} is not supported by this version")


def word_of(value: object, words: Collection[str], name: str, where: str) -> str:
    """Return a value that must be one of some words, or empty; null counts as empty.

    Raises
    ------
    ClaimError
        If it is another value.
    """
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or value not in words:
        raise ClaimError(f"annotation {name}: {where}: {quoted(value)} is not one of {', '.join(words)}")
    return value


def selector_of(value: object, name: str, where: str) -> LabelSelector | None:
    """Return a label selector; None for null. An empty selector selects everything.

    Raises
    ------
    ClaimError
        If it is malformed.
    """
    try:
        raw = msgspec.convert(value, _RawSelector | None)
        return None if raw is None else compile_label_selector(msgspec.to_builtins(raw))
    except (msgspec.ValidationError, SelectorError) as error:
        raise ClaimError(f"annotation {name}: {where}: {error}") from None
