"""Validated access to the values in Koordinator's objects and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.koordinator.names import DEVICE_RESOURCES, DIMENSIONS
from vgpu_scheduler.dialects.values import INT32, SURROGATE
from vgpu_scheduler.kube import QuantityError, to_int
from vgpu_scheduler.model import Amounts, quoted

MOST_AMOUNT = 2**44
"""The largest amount of a device; the limit keeps sums over devices and pods within int64."""


def object_of(value: object, where: str) -> Mapping[str, Any]:
    """Return an object; null counts as an empty one.

    Raises
    ------
    CodecError
        If it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise CodecError(f"{where} is not an object")
    return value


def amounts_of(kind: str, resources: Mapping[str, Any], where: str) -> Amounts:
    """Return the amounts that resources stand for on a device of a kind; other resources are left out.

    Raises
    ------
    CodecError
        If an amount is malformed, or more than a device can have.
    """
    amounts = [0] * len(DIMENSIONS)
    for name, resource in DEVICE_RESOURCES.items():
        if resource.vendor != kind or name not in resources:
            continue
        text = resources[name]
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise CodecError(f"{where}: {name}: {quoted(text)} is not a quantity")
        try:
            amount = to_int(text)
        except QuantityError as error:
            raise CodecError(f"{where}: {name}: {error}") from None
        if not 0 <= amount <= MOST_AMOUNT:
            raise CodecError(f"{where}: {name}: {text} is not an amount that a device can have")
        amounts[resource.dimension] = amount
    return tuple(amounts)


def list_of(value: object, where: str) -> list[Any]:
    """Return a list; null counts as an empty one.

    Raises
    ------
    CodecError
        If it is something else.
    """
    if not isinstance(value, list | None):
        raise CodecError(f"{where} is not a list")
    return value or []


def text_of(value: object, where: str) -> str:
    """Return a text without lone surrogates; null counts as an empty one.

    Raises
    ------
    CodecError
        If it is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or SURROGATE.search(value):
        raise CodecError(f"{where}: {quoted(value)} is not a text")
    return value


def integer_of(value: object, where: str, least: int = -INT32) -> int:
    """Return an integer; null counts as 0.

    Raises
    ------
    CodecError
        If it is not an integer, less than ``least``, or beyond 32 bits.
    """
    if value is None:
        return 0
    if type(value) is not int or not least <= value <= INT32:
        raise CodecError(f"{where}: {quoted(value)} is not an integer{'' if least == -INT32 else f' from {least}'}")
    return value


def labels_of(value: object, where: str) -> tuple[tuple[str, str], ...]:
    """Return labels, sorted by name.

    Raises
    ------
    CodecError
        If they are malformed.
    """
    found = object_of(value, where)
    return tuple(sorted((name, text_of(text, f"{where}.{name}")) for name, text in found.items()))
