"""How a golden case went, for all suites alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Literal, NamedTuple

Case = dict[str, Any]

Status = Literal["passed", "decided", "failed", "not_implemented"]


class Outcome(NamedTuple):
    """How a case went, and why.

    Attributes
    ----------
    status
        ``passed``: the product says what the case says. ``decided``: it says something else on purpose, and the twin
        says exactly what each of both says, with and without the quirks. ``not_implemented``: the case is about
        something that this version does not do.
    detail
        The differences, or what is not implemented.
    quirks
        Names of the quirks that make the difference in a decided case.
    """

    status: Status
    detail: str = ""
    quirks: frozenset[str] = frozenset()


def differences(what: str, expected: Any, found: Any, tolerance: float = 0.0) -> Iterator[str]:
    """Say where two JSON-like values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys(), key=str):
            missing = object()
            left, right = expected.get(key, missing), found.get(key, missing)
            if left is missing or right is missing:
                side = "expected" if right is missing else "unexpected"
                yield f"{what}.{key}: {side} {(left if right is missing else right)!r}"
            else:
                yield from differences(f"{what}.{key}", left, right, tolerance)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differences(f"{what}[{number}]", left, right, tolerance)
    elif isinstance(expected, float | int) and isinstance(found, float | int) and not isinstance(expected, bool):
        if isinstance(found, bool) or abs(expected - found) > tolerance:
            yield f"{what}: expected {expected!r}, found {found!r}"
    elif expected != found:
        yield f"{what}: expected {expected!r}, found {found!r}"


def responsible(
    theirs: Any, ours: Any, decide: Callable[[frozenset[Any]], Any], asked: set[Enum], every: frozenset[Any]
) -> frozenset[str]:
    """Name the quirks that make a difference to the answer, each against all or against none of the others.

    Parameters
    ----------
    theirs, ours
        The twin's answer with every quirk on, and with none.
    decide
        The twin with these quirks on.
    asked
        The quirks that could make a difference.
    every
        All quirks of the twin.
    """
    if theirs == ours:
        return frozenset()
    found = {quirk.value for quirk in asked if decide(every - {quirk}) != theirs or decide(frozenset({quirk})) != ours}
    return frozenset(found)
