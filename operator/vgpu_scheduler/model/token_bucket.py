"""A token bucket for rate limits."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: each token allows one action.

    Attributes
    ----------
    capacity
        The maximum and initial number of tokens.
    refill_seconds
        The seconds per new token.
    at
        The time of the last call, in seconds; callers supply a monotonic time.
    """

    capacity: float
    refill_seconds: float
    at: float
    _tokens: float = field(init=False)

    def __post_init__(self) -> None:
        """Fill the bucket."""
        self._tokens = self.capacity

    def has_token(self, now: float) -> bool:
        """Tell whether a token is available."""
        self._tokens = min(self._tokens + (now - self.at) / self.refill_seconds, self.capacity)
        self.at = now
        return self._tokens >= 1.0

    def take(self, now: float) -> bool:
        """Take a token; tell whether there was one."""
        if not self.has_token(now):
            return False
        self._tokens -= 1.0
        return True
