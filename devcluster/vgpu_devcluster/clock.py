"""Timestamps as the API server writes them, and unique names."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # what generateName uses: no vowels, so no words
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX


def now(offset: float = 0.0) -> str:
    """Return the time in ``offset`` seconds, RFC 3339 in UTC, to the second."""
    return (datetime.now(UTC) + timedelta(seconds=offset)).strftime("%Y-%m-%dT%H:%M:%SZ")


def generated(base: str) -> str:
    """Return a unique name that begins with ``base``."""
    return base[:_MAX_BASE] + "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX))
