"""Registrations that are kept decoded, because most events of a node leave them as they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from cachetools import LRUCache

from vgpu_scheduler.model import Device

MOST_BYTES = 256 * 2**20
"""What all that is remembered may take: 20,000 nodes with 8 cards take about half of it.

Of nodes that are known nothing is held twice: their devices are the same objects.
"""
_DEVICE, _LINK, _PIECE = 700, 120, 400
"""About how many bytes a decoded device takes, and each of its links and pieces."""


class _Decoded(NamedTuple):
    size: int
    devices: tuple[Device, ...]


class RememberedDevices:
    """Decoded device lists, the most recently used ones, bounded by bytes.

    Parameters
    ----------
    most_bytes
        How much they may take together, with the texts that they were decoded from. A list that is larger by itself
        is decoded each time.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._cache: LRUCache[Hashable, _Decoded] = LRUCache(most_bytes, getsizeof=lambda entry: entry.size)

    @property
    def bytes(self) -> int:
        """About what is remembered takes."""
        return int(self._cache.currsize)

    def get(self, facts: Hashable, decode: Callable[[], tuple[Device, ...]]) -> tuple[Device, ...]:
        """Return the devices of a registration, decoded now if they are not remembered.

        Parameters
        ----------
        facts
            All that they depend on: texts, and tuples of them.
        decode
            Decodes them; what it raises is not remembered.
        """
        known = self._cache.get(facts)
        if known is not None:
            return known.devices
        devices = decode()
        size = _length(facts) + sum(
            _DEVICE + _LINK * len(device.links) + _PIECE * len(device.pieces) for device in devices
        )
        if size <= self._cache.maxsize:
            self._cache[facts] = _Decoded(size, devices)
        return devices


def _length(facts: Hashable) -> int:
    if isinstance(facts, tuple):
        return sum(map(_length, facts))
    return len(facts) if isinstance(facts, str) else 0
