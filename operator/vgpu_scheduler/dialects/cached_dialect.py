"""Registrations that are kept decoded, because most events of a node leave them as they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from vgpu_scheduler.model import BoundedCache, Device, bytes_of

MOST_BYTES = 256 * 2**20
"""What all that is remembered may take: 20,000 nodes with 8 cards take about half of it.

Of nodes that are known nothing is held twice: their devices are the same objects.
"""
_DEVICE, _LINK, _PIECE = 700, 120, 400
"""About how many bytes a decoded device takes, and each of its links and pieces."""


class RememberedDevices:
    """Decoded device lists, the most recently used ones, bounded by bytes.

    Parameters
    ----------
    most_bytes
        How much they may take together, with the texts that they were decoded from.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._known: BoundedCache[Hashable, tuple[Device, ...]] = BoundedCache(most_bytes)

    @property
    def bytes(self) -> int:
        """About what is remembered takes."""
        return self._known.bytes

    def get(self, facts: Hashable, decode: Callable[[], tuple[Device, ...]]) -> tuple[Device, ...]:
        """Return the devices of a registration, decoded now if they are not remembered.

        Parameters
        ----------
        facts
            All that they depend on: texts, and tuples of them.
        decode
            Decodes them; what it raises is not remembered.
        """
        known = self._known.get(facts)
        if known is None:
            known = decode()
            size = sum(_DEVICE + _LINK * len(device.links) + _PIECE * len(device.pieces) for device in known)
            self._known.put(facts, known, bytes_of(facts) + size)
        return known
