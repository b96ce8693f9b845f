"""How often something may be tried."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["FailureLimiter"]

_MOST_KNOWN: Final = 4096
"""Addresses that are remembered; the one that was quiet for longest is forgotten first."""


@dataclass(slots=True)
class _Left:
    attempts: float
    at: float


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
        self._left: OrderedDict[str, _Left] = OrderedDict()

    def may(self, address: str) -> bool:
        """Tell whether an address may try."""
        return self._now(address).attempts >= 1.0

    def failed(self, address: str) -> None:
        """Count a failure."""
        left = self._now(address)
        left.attempts = max(left.attempts - 1.0, 0.0)
        self._left[address] = left
        self._left.move_to_end(address)
        while len(self._left) > _MOST_KNOWN:
            self._left.popitem(last=False)

    def _now(self, address: str) -> _Left:
        now = self._clock()
        left = self._left.get(address)
        if left is None:
            return _Left(float(self._at_once), now)
        left.attempts = min(left.attempts + (now - left.at) / self._seconds, float(self._at_once))
        left.at = now
        return left
