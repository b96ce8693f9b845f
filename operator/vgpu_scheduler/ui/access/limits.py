"""Limits of failed attempts by address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from vgpu_scheduler.model import TokenBucket

_MOST_KNOWN: Final = 4096
"""The most addresses to remember; the one without failures for longest is forgotten first."""


class FailureLimiter:
    """Limits the failures of each address, with a token bucket.

    Parameters
    ----------
    at_once
        The most failures at once.
    seconds
        Seconds after which one more failure is allowed.
    clock
        A monotonic clock (seconds).
    """

    def __init__(self, at_once: int, seconds: float, clock: Callable[[], float]) -> None:
        self._at_once = at_once
        self._seconds = seconds
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def may(self, address: str) -> bool:
        """Tell whether an address may make an attempt."""
        bucket = self._buckets.get(address)
        return bucket is None or bucket.has_token(self._clock())

    def failed(self, address: str) -> None:
        """Count a failed attempt."""
        now = self._clock()
        bucket = self._buckets.setdefault(address, TokenBucket(self._at_once, self._seconds, now))
        bucket.take(now)
        self._buckets.move_to_end(address)
        while len(self._buckets) > _MOST_KNOWN:
            self._buckets.popitem(last=False)
