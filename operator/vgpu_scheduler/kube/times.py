"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def rfc3339(time: datetime, *, micro: bool = False) -> str:
    """Return a time in UTC, in seconds or microseconds; it must know its time zone."""
    return f"{time.astimezone(UTC):{'%Y-%m-%dT%H:%M:%S.%fZ' if micro else '%Y-%m-%dT%H:%M:%SZ'}}"


def parse_time(text: object, *, assumed: tzinfo | None = None) -> datetime | None:
    """Read a time, as one in UTC; None if it is none.

    Parameters
    ----------
    assumed
        The time zone of a time that names none; without it, such a time is none.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        if found is not None and found.tzinfo is None:
            found = None if assumed is None else found.replace(tzinfo=assumed)
        return None if found is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
