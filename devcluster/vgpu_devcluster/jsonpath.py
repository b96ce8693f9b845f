"""The part of JSONPath that printer columns use: fields, indices, ``[*]`` and ``[?(@.field=="value")]``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[Any], Iterator[Any]]

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
    |\[(?P<index>-?\d+)\]
    |\[(?P<every>\*)\]
    |\['(?P<quoted>[^']*)'\]
    |\[\?\(@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""",
    re.VERBOSE,
)


def find(path: str, obj: Any) -> list[Any]:
    """Return the values at a path.

    Raises
    ------
    ValueError
        If the path contains something that is not supported.
    """
    found = [obj]
    for step in _steps(path):
        found = [inner for value in found for inner in step(value)]
    return found


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Step, ...]:
    steps, position = [], 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path}: not understood from {path[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["every"]:
        return _every
    if match["key"]:
        return _where(match["key"], match["value"])
    name = match["quoted"] if match["quoted"] is not None else re.sub(r"\\(.)", r"\1", match["field"])
    return _field(name)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _where(key: str, wanted: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            if any(str(found) == wanted for found in find(f".{key}", item)):
                yield item

    return step
