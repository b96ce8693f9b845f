"""Ages as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(stamp: str | None, at: datetime | None = None) -> str:
    """Return how long ago an RFC 3339 timestamp was, in two units at most; ``<unknown>`` without one."""
    if not stamp:
        return UNKNOWN
    passed = (at or datetime.now(UTC)) - datetime.fromisoformat(stamp)
    return human(int(passed.total_seconds()))


def human(seconds: int) -> str:
    """Format a duration; the smaller unit is left out if it is zero or insignificant."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    for unit, name, smaller, small, both, alone in _STEPS:
        if seconds < alone:
            rest = seconds % unit // smaller if seconds < both else 0
            return f"{seconds // unit}{name}{rest}{small}" if rest else f"{seconds // unit}{name}"
    return f"{seconds // _YEAR}y"


# unit, name, smaller unit, its name, below which duration both are shown, up to which duration this unit is used
_STEPS = (
    (_MINUTE, "m", 1, "s", 10 * _MINUTE, 3 * _HOUR),
    (_HOUR, "h", _MINUTE, "m", 8 * _HOUR, 2 * _DAY),
    (_DAY, "d", _HOUR, "h", 8 * _DAY, 2 * _YEAR),
    (_YEAR, "y", _DAY, "d", 8 * _YEAR, 8 * _YEAR),
)
