"""Remembers what was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

_Value = TypeVar("_Value")


MOST: Final = 32 * 2**20
"""Bytes that keys which are weighed keep in memory."""


class Recent(Generic[_Value]):
    """Remembers the most recently used values.

    Parameters
    ----------
    size
        The most values that are kept, or a function that returns it, which is called at each insertion.
    forgotten
        Told of each value that is remembered no more.
    weigh
        Says how many bytes a key keeps in memory, of keys that hold what others wrote; :data:`MOST` of all are kept.
    """

    def __init__(
        self,
        size: int | Callable[[], int],
        forgotten: Callable[[_Value], None] | None = None,
        weigh: Callable[[Any], int] | None = None,
    ) -> None:
        self._size = size
        self._forgotten = forgotten
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Hashable, _Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of this key, made now if it is not remembered."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = make()
            if self._weigh is not None:
                self._weight += self._weigh(key)
            size = self._size() if callable(self._size) else self._size
            while len(self._values) > size or (self._weight > MOST and len(self._values) > 1):
                self._forget_oldest()
        else:
            self._values.move_to_end(key)
        return value

    def _forget_oldest(self) -> None:
        key, oldest = self._values.popitem(last=False)
        if self._weigh is not None:
            self._weight -= self._weigh(key)
        if self._forgotten is not None:
            self._forgotten(oldest)


def weight_of_texts(key: tuple[object, ...]) -> int:
    """Return how many bytes the texts of a key take, those in tuples included."""
    return sum(
        weight_of_texts(part) if isinstance(part, tuple) else len(part) if isinstance(part, str | bytes) else 0
        for part in key
    )
