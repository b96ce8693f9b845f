"""Decoding of deeply nested JSON. No field that is read is deep, but users may nest other fields arbitrarily.

The API server accepts 10,000 levels, in ``metadata.managedFields`` from any user who may create a pod. Decoders fail at
about a thousand levels, and then the whole list would be unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

DEEPEST: Final = 200
"""Levels that are kept; lists of CRDs, the deepest objects that are read, have fewer than 100."""
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_STEP: Final = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1

_Value = TypeVar("_Value")


def shallow(data: bytes, deepest: int = DEEPEST) -> bytes:
    """Return JSON in which every list and object below a level is replaced by 0.

    The time depends only on the size, and is about that of decoding.
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
    """Decode JSON; if it is too deep for the decoder, decode it without the deep levels."""
    try:
        return decode(data)
    except RecursionError:
        return decode(shallow(data))


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """Decode JSON with msgspec.

    Raises
    ------
    ValueError
        If it is not valid JSON.
    """
    return of_any_depth(bytes(data), msgspec.json.decode)


def loads(data: str | bytes) -> Any:
    """Decode JSON like the standard library, but faster.

    Raises
    ------
    ValueError
        If it is not valid JSON.
    """
    return of_any_depth(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, _lenient)


def _lenient(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # the standard library accepts more: NaN, lone surrogates
        return json.loads(data)
