"""What many objects say alike, kept once: pods of one template differ in little."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["SharedValues"]

_LEVELS: Final = 50
"""Of an object whose parts are shared; what is deeper stays as it is."""
_MOST: Final = 1024
"""Parts in a generation."""


class SharedValues:
    """Values as JSON has them, of which equal ones are the same object; nobody may change them in place.

    The parts that were met last are known, so that this takes little memory itself.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._before: dict[bytes, Any] = {}

    def share(self, value: Any, levels: int = _LEVELS) -> Any:
        """Return a value whose parts are those that are known, where these say the same.

        Parameters
        ----------
        levels
            How many of it are shared.
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
        """Return the value that is known for a key: of what its parts are, which live as long as it does."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known, self._before = {}, self._known
            known = self._known[key] = self._before.get(key, value)
        return known


def _ids(parts: Iterable[object]) -> bytes:
    return array("Q", map(id, parts)).tobytes()
