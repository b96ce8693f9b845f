"""Labels that many objects have alike, held once: the replicas of a workload differ in little else than their names."""

from collections.abc import Mapping
from typing import Final

from cachetools import LRUCache

_MOST_BYTES: Final = 4 * 2**20
"""What the maps that are remembered for the next object may take."""
_NONE: Final[Mapping[str, str]] = {}

_Items = tuple[tuple[str, str], ...]


class SharedMaps:
    """Maps of texts of which equal ones are one object, as long as they were used lately.

    Parameters
    ----------
    most_bytes
        About how much the maps may take that are remembered; what is held elsewhere does not count.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._known: LRUCache[_Items, Mapping[str, str]] = LRUCache(most_bytes, getsizeof=_size)

    def get(self, texts: dict[str, str] | None) -> Mapping[str, str]:
        """Return a map that equals this one; nobody may change it."""
        if not texts:
            return _NONE
        items = tuple(texts.items())
        known = self._known.get(items)
        if known is None:
            known = texts
            if _size(known) <= self._known.maxsize:
                self._known[items] = known
        return known


def _size(texts: Mapping[str, str]) -> int:
    """Return about how many bytes a map takes."""
    return 240 + sum(120 + len(key) + len(value) for key, value in texts.items())
