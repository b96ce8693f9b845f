"""Sessions: what a browser has in the place of a token, which it hands over once."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.ui.access.guard import User

__all__ = ["Sessions", "expiry_of"]

_BYTES: Final = 32
_LONGEST: Final = 12 * 3600.0
"""Seconds after which a session ends whose token does not say when it does."""
_MOST: Final = 2000
_MOST_OF_ONE: Final = 8
"""Sessions of one user; the oldest ends when there is one more."""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has logged in.

    Attributes
    ----------
    token
        Is asked about again and again; it is kept in memory alone, and shown nowhere.
    ends
        When it ends, by the clock of sessions.
    """

    user: User
    token: str
    ends: float

    def __repr__(self) -> str:
        """Show whose it is, and no token."""
        return f"Session({self.user.name!r})"


class Sessions:
    """The sessions, found by a digest of what the browser has.

    Parameters
    ----------
    clock
        Seconds, which only rise.
    wall
        The time of day in seconds, as tokens have it.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._open: dict[bytes, Session] = {}  # the oldest first

    def begin(self, user: User, token: str) -> str:
        """Begin a session, and return what its browser has to show."""
        now, expiry = self._clock(), expiry_of(token)
        lasts = _LONGEST if expiry is None else min(expiry - self._wall(), _LONGEST)
        self._open = {key: each for key, each in self._open.items() if each.ends > now}
        theirs = [key for key, each in self._open.items() if each.user.name == user.name]
        for key in theirs[: max(len(theirs) - _MOST_OF_ONE + 1, 0)]:
            del self._open[key]
        while len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        shown = secrets.token_urlsafe(_BYTES)
        self._open[_digest(shown)] = Session(user, token, now + lasts)
        return shown

    def find(self, shown: str) -> Session | None:
        """Return a session; None where there is none, or it has ended."""
        found = self._open.get(_digest(shown))
        if found is not None and found.ends <= self._clock():
            self.end(shown)
            return None
        return found

    def end(self, shown: str) -> None:
        """End a session, if it is one."""
        self._open.pop(_digest(shown), None)

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)


def _digest(shown: str) -> bytes:
    return hashlib.sha256(shown.encode(errors="replace")).digest()


def expiry_of(token: str) -> float | None:
    """Return until when a token says that it holds, which only the API server can confirm; None where it does not."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        found = float(claims["exp"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    return found if math.isfinite(found) else None
