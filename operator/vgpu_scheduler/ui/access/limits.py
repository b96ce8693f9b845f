"""How often something may be tried."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from vgpu_scheduler.model import TokenBucket

__all__ = ["FailureLimiter"]

_MOST_KNOWN: Final = 4096
"""Addresses that are remembered; the one that was quiet for longest is forgotten first."""


class FailureLimiter:
    """How many failures an address may have.

    Parameters
    ----------
    at_once
        How many at once.
    seconds
        After how many there may be one more.
    clock
        Seconds, which only rise.
    """

    def __init__(self, at_once: int, seconds: float, clock: Callable[[], float]) -> None:
        self._at_once = at_once
        self._seconds = seconds
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def may(self, address: str) -> bool:
        """Tell whether an address may try."""
        bucket = self._buckets.get(address)
        return bucket is None or bucket.has_token(self._clock())

    def failed(self, address: str) -> None:
        """Count a failure."""
        now = self._clock()
        bucket = self._buckets.setdefault(address, TokenBucket(self._at_once, self._seconds, now))
        bucket.take(now)
        self._buckets.move_to_end(address)
        while len(self._buckets) > _MOST_KNOWN:
            self._buckets.popitem(last=False)
