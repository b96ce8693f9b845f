"""How often something may happen: so many times at once, and then once in so many seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TokenBucket"]


@dataclass(slots=True)
class TokenBucket:
    """Tokens of which each allows something once.

    Attributes
    ----------
    capacity
        How many there are at most, and at first.
    refill_seconds
        After how many seconds there is one more.
    at
        When it was asked last; the caller supplies the time, in seconds that only rise.
    """

    capacity: float
    refill_seconds: float
    at: float
    _tokens: float = field(init=False)

    def __post_init__(self) -> None:
        """Fill it."""
        self._tokens = self.capacity

    def has_token(self, now: float) -> bool:
        """Tell whether something may happen."""
        self._tokens = min(self._tokens + (now - self.at) / self.refill_seconds, self.capacity)
        self.at = now
        return self._tokens >= 1.0

    def take(self, now: float) -> bool:
        """Take a token; tell whether there was one."""
        if not self.has_token(now):
            return False
        self._tokens -= 1.0
        return True
