"""JSON of any depth. No field that is read lies deep, but whoever writes an object may fill others without a bottom.

The API server takes 10,000 levels, of ``metadata.managedFields`` from anybody who may create a pod; decoders end at
about a thousand, and with them everything else in the same list would be unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

__all__ = ["DEEPEST", "decode_json", "loads", "of_any_depth", "shallow"]

DEEPEST = 200
"""Levels that are kept; no field of a list of definitions, the deepest objects that are read, lies below 100."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)

_Value = TypeVar("_Value")


def shallow(data: bytes, deepest: int = DEEPEST) -> bytes:
    """Return JSON with ``null`` instead of every list and object below a level; what is no JSON stays none."""
    kept: list[bytes] = []
    depth, begin = 0, 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth == deepest + 1:
                kept += data[begin : token.start()], b"null"
        elif first in b"]}":
            if depth == deepest + 1:
                begin = token.end()
            depth -= 1
    if depth <= deepest:
        kept.append(data[begin:])
    return b"".join(kept)


def of_any_depth(data: bytes, decode: Callable[[bytes], _Value]) -> _Value:
    """Decode JSON, without what lies too deep if the decoder cannot follow."""
    try:
        return decode(data)
    except RecursionError:
        return decode(shallow(data))


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """Decode JSON as msgspec does.

    Raises
    ------
    ValueError
        If it is none.
    """
    return of_any_depth(bytes(data), msgspec.json.decode)


def loads(data: str | bytes) -> Any:
    """Decode JSON as the standard library does.

    Raises
    ------
    ValueError
        If it is none.
    """
    return of_any_depth(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, json.loads)
