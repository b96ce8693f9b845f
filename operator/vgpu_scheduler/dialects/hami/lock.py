"""The node lock: HAMi's device plugin finds "its" pod through this annotation of the node."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from vgpu_scheduler.dialects.node_side import LockValue
from vgpu_scheduler.model import quoted

LOCK_ANNOTATION = "hami.io/mutex.lock"

# Go's RFC 3339 layout: upper-case letters, seconds, an optional fraction, Z or an offset with a colon.
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")
_PARTS = 3


def parse_lock(value: str) -> LockValue:
    """Decode a lock value.

    Raises
    ------
    ValueError
        If it is malformed; such a lock is nobody's to take or release, an administrator has to look at it.
    """
    parts = value.split(",")
    if len(parts) not in {1, _PARTS}:
        raise ValueError(f"lock value {quoted(value)} has {len(parts)} parts, not 3")
    if not _RFC3339.fullmatch(parts[0]):
        raise ValueError(f"lock value {quoted(value)} does not begin with an RFC 3339 time")
    try:
        taken_at = datetime.fromisoformat(parts[0])
    except ValueError as error:
        raise ValueError(f"lock value {quoted(value)}: {error}") from None
    return LockValue(taken_at, *parts[1:])


def format_lock(now: datetime, namespace: str, name: str) -> str:
    """Encode a lock value for a pod; ``now`` must know its time zone."""
    return f"{format_time(now)},{namespace},{name}"


def format_time(now: datetime) -> str:
    """Encode the value of a lock that names nobody; ``now`` must know its time zone."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
