"""Labels that many objects have alike, held once: the replicas of a workload differ in little else than their names."""

from collections.abc import Mapping
from sys import getsizeof
from typing import Final

from vgpu_scheduler.model import BoundedCache, bytes_of

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
        self._known: BoundedCache[_Items, Mapping[str, str]] = BoundedCache(most_bytes)

    def get(self, texts: dict[str, str] | None) -> Mapping[str, str]:
        """Return a map that equals this one; nobody may change it."""
        if not texts:
            return _NONE
        items = tuple(texts.items())
        known = self._known.get(items)
        if known is None:
            known = texts
            self._known.put(items, known, bytes_of(items) + getsizeof(known))
        return known
