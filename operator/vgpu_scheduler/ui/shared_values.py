"""Shares equal values between objects, because pods of one template differ little."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any, Final

_LEVELS: Final = 50
"""The nesting depth of an object down to which its parts are shared."""
_MOST: Final = 1024
"""The most parts in a generation of the cache."""


class SharedValues:
    """A cache that makes equal JSON values the same object; shared values must not be modified.

    It remembers only the parts used last, so that it needs little memory itself.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._before: dict[bytes, Any] = {}

    def share(self, value: Any, levels: int = _LEVELS) -> Any:
        """Return an equal value built from shared parts.

        Parameters
        ----------
        levels
            The nesting depth down to which parts are shared.
        """
        if isinstance(value, str):
            return sys.intern(value)
        if levels and isinstance(value, dict):
            fields = {sys.intern(key): self.share(inner, levels - 1) for key, inner in value.items()}
            return self._once(_ids((*fields, *fields.values())), fields)
        if levels and isinstance(value, list):
            items = [self.share(inner, levels - 1) for inner in value]
            return self._once(b"[" + _ids(items), items)
        return value

    def _once(self, key: bytes, value: Any) -> Any:
        """Return the cached value for a key: the ids of the parts, which live as long as the value does."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known, self._before = {}, self._known
            known = self._known[key] = self._before.get(key, value)
        return known


def _ids(parts: Iterable[object]) -> bytes:
    return array("Q", map(id, parts)).tobytes()
