"""Remembers what was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Recent(Generic[_Value]):
    """Remembers the most recently used values.

    Parameters
    ----------
    size
        How many.
    forgotten
        Told of each value that is remembered no more.
    """

    def __init__(self, size: int, forgotten: Callable[[_Value], None] | None = None) -> None:
        self._size = size
        self._forgotten = forgotten
        self._values: OrderedDict[Hashable, _Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of this key, made now if it is not remembered."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if len(self._values) > self._size:
                _, oldest = self._values.popitem(last=False)
                if self._forgotten is not None:
                    self._forgotten(oldest)
        else:
            self._values.move_to_end(key)
        return value
