"""Formatting of durations in messages and reports."""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.model.texts import counted

_NAMES: Final = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_SYMBOLS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_FROM: Final = 3.0
"""A rounded duration uses a unit from this many on: 90 minutes is more precise than 2 hours."""
_EXACT_FROM: Final = 2.0


def measured_duration(seconds: float) -> str:
    """Format a duration with one decimal and a symbol, as in ``45 s``, ``12.5 min``, ``2.3 h`` and ``4 d``."""
    size, symbol = next(((size, symbol) for size, symbol in _SYMBOLS if seconds >= _EXACT_FROM * size), (1.0, "s"))
    return f"{round(seconds / size, 1):g} {symbol}"


def rounded_duration(seconds: float) -> str:
    """Format an approximate duration in words and whole numbers, as in ``10 minutes``."""
    size, name = duration_unit(seconds)
    return counted(round(seconds / size), name)


def duration_unit(seconds: float) -> tuple[float, str]:
    """Return the unit of a rounded duration: its seconds and its name."""
    return next(((size, name) for size, name in _NAMES if seconds >= _FROM * size), _NAMES[-1])
