"""JSON of any depth. No field that is read lies deep, but the author of an object may fill others without a bottom.

The API server takes 10,000 levels, of ``metadata.managedFields`` from anybody who may create a pod; decoders end at
about a thousand, and with them everything else in the same list would be unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

__all__ = ["DEEPEST", "decode_json", "loads", "shallow"]

DEEPEST: Final = 200
"""Levels that are kept; no field of a list of definitions, the deepest objects that are read, lies below 100."""
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_STEP: Final = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1

_Value = TypeVar("_Value")


def shallow(data: bytes, deepest: int = DEEPEST) -> bytes:
    """Return JSON with a 0 instead of every list and object below a level, which are not looked at.

    It takes the same time whatever is in there, about that of decoding it.
    """
    text = np.frombuffer(data, np.uint8)
    plain = np.frombuffer(_ESCAPE.sub(b"__", data), np.uint8)
    in_string = np.cumsum(plain == ord('"'), dtype=np.uint8) & 1
    step = np.where(in_string, np.int8(0), _STEP[plain])
    depth = np.cumsum(step, dtype=np.int32)
    deep = (depth > deepest) | ((step < 0) & (depth == deepest))  # from the opening to the closing bracket
    begins = deep.copy()
    begins[1:] &= ~deep[:-1]
    kept = np.where(deep, np.uint8(ord(" ")), text)
    kept[begins] = ord("0")
    return kept.tobytes()


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
    """Decode JSON as the standard library does, and faster.

    Raises
    ------
    ValueError
        If it is none.
    """
    return of_any_depth(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, _lenient)


def _lenient(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # the standard library takes more: NaN, halves of characters
        return json.loads(data)
