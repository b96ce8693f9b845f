"""The known name that a misspelt one is probably meant for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the known name that is most like a name, whatever the case; empty where none is like it.

    Parameters
    ----------
    least
        How alike the two must be, from 0 to 1.
    """
    by_lower_case = {other.lower(): other for other in sorted(known)}
    found = get_close_matches(name.lower(), by_lower_case, 1, least)
    return by_lower_case[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the end of a sentence that suggests a known name; empty where none is like it (see :func:`closest`)."""
    meant = closest(name, known, least)
    return f", did you mean {meant}?" if meant else ""
