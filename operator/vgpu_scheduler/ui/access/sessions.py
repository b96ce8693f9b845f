"""Sessions of browsers, which exchange a token for a session once."""

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

_BYTES: Final = 32
_LONGEST: Final = 12 * 3600.0
"""The longest session (seconds), if the token does not say when it expires."""
_MOST: Final = 2000
_MOST_OF_ONE: Final = 8
"""The most sessions of one user; a further session ends the oldest."""


@dataclass(frozen=True, slots=True)
class Session:
    """A user who has logged in.

    Attributes
    ----------
    token
        The token, which is checked again with each request; it is only kept in memory and never shown.
    ends
        When the session ends, by the clock of the sessions.
    """

    user: User
    token: str
    ends: float

    def __repr__(self) -> str:
        """Show the user, but not the token."""
        return f"Session({self.user.name!r})"


class Sessions:
    """The open sessions, by a digest of the browser's cookie.

    Parameters
    ----------
    clock
        A monotonic clock (seconds).
    wall
        The time of day (seconds since 1970), as in tokens.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._open: dict[bytes, Session] = {}  # oldest first

    def begin(self, user: User, token: str) -> str:
        """Start a session, and return the value of its cookie."""
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
        """Return a session; None if there is none or it has ended."""
        found = self._open.get(_digest(shown))
        if found is not None and found.ends <= self._clock():
            self.end(shown)
            return None
        return found

    def end(self, shown: str) -> None:
        """End a session, if it exists."""
        self._open.pop(_digest(shown), None)

    def __len__(self) -> int:
        """Return the number of open sessions."""
        return len(self._open)


def _digest(shown: str) -> bytes:
    return hashlib.sha256(shown.encode(errors="replace")).digest()


def expiry_of(token: str) -> float | None:
    """Return the expiry in a token (seconds since 1970), unverified; None if it has none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        found = float(claims["exp"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    return found if math.isfinite(found) else None
