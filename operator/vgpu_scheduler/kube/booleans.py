"""Booleans in texts, as programs written in Go read them from flags and annotations."""

from __future__ import annotations

from typing import Final

_GO_BOOL: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def go_bool(text: str) -> bool | None:
    """Parse a boolean like Go's ``strconv.ParseBool``; None if it is invalid."""
    return _GO_BOOL.get(text)
