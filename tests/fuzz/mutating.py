"""Changes of inputs: of bytes, of texts by words that decoders know, and of JSON by putting one thing for another."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
TOKENS: tuple[bytes, ...] = tuple(
    token.encode()
    for token in (
        *(
            "",
            ",",
            ":",
            ";",
            "[",
            "]",
            "{",
            "}",
            '"',
            "\\",
            "\n",
            " ",
            "\0",
            "-",
            "+",
            ".",
            "/",
            "%",
            "=",
            "!",
            "(",
            ")",
        ),
        *("0", "-1", "1e9", "1e400", "9" * 20, "0" * 5000, "9" * 5000, "2147483648", "9223372036854775808", "1.5", "٣"),
        *("true", "null", "NaN", "Infinity", "\\ud800", "é", "\u2028", "[" * 1100, '{"a":' * 1100),
        *("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "default,p", "GPU-1"),
        *("10Ki", "1n", "1Ei", "in (a,b)", "notin", "spread", "binpack", "numa", "topology-aware", "mig", "NVIDIA"),
    )
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, 1.5, 1e308, "", "0", "-1", "1e400", "a", "\ud800", "é" * 300),
    *([], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"name": "x"}, ["a", "a"], "9" * 40, "0" * 5000),
)
"""What may stand anywhere in JSON."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: what is done, where, and with what; fractions and numbers are taken modulo what there is."""

    kind: int
    where: float
    until: float
    what: int


def applied(data: bytes, edits: Sequence[Edit], most: int) -> bytes:
    """Return an input after some changes, of at most so many bytes."""
    for edit in edits:
        data = _APPLY[edit.kind % len(_APPLY)](data, edit)[:most]
    return data


def random_edits(random: Random) -> list[Edit]:
    """Return a few changes."""
    number = 1 + min(int(random.expovariate(0.6)), 12)
    return [
        Edit(random.randrange(64), random.random(), random.random(), random.randrange(1 << 16)) for _ in range(number)
    ]


def _span(data: bytes, edit: Edit) -> tuple[int, int]:
    at = int(edit.where * (len(data) + 1))
    return at, at + int((edit.until**4) * (len(data) + 1 - at))  # mostly short ones


def _replaced(data: bytes, edit: Edit) -> bytes:
    at, until = _span(data, edit)
    return data[:at] + TOKENS[edit.what % len(TOKENS)] + data[until:]


def _flipped(data: bytes, edit: Edit) -> bytes:
    at, _ = _span(data, edit)
    return data[:at] + bytes([edit.what % 256]) + data[at + 1 :]


def _repeated(data: bytes, edit: Edit) -> bytes:
    at, until = _span(data, edit)
    return data[:until] + data[at:until] * (1 + edit.what % 40) + data[until:]


def _moved(data: bytes, edit: Edit) -> bytes:
    at, until = _span(data, edit)
    to = edit.what % (len(data) + 1)
    return data[:to] + data[at:until] + data[to:]


def _put(data: bytes, edit: Edit) -> bytes:
    """Put a value, or another part of the same JSON, for something in it; of other inputs replace a part."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return _replaced(data, edit)
    paths = list(_paths(found))
    path = paths[int(edit.where * len(paths))]
    if not path:
        return data
    another = edit.until < 0.3
    value = _at(found, paths[edit.what % len(paths)]) if another else VALUES[edit.what % len(VALUES)]
    inner = _at(found, path[:-1])
    if edit.until > 0.9 and isinstance(inner, list):
        inner *= 1 + edit.what % 20
    elif edit.until > 0.8 and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        try:
            inner[path[-1]] = copy.deepcopy(value)
        except RecursionError:  # deeper than copies go
            return _replaced(data, edit)
    try:
        return json.dumps(found).encode()
    except RecursionError:
        return _replaced(data, edit)


def _paths(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inside:
        yield from _paths(value, (*path, key))


def _at(found: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        found = found[key]
    return found


_APPLY = (_put, _replaced, _put, _flipped, _put, _repeated, _replaced, _moved)


def corpus(name: str) -> list[tuple[str, bytes]]:
    """Return the committed inputs of a target, by their names."""
    return [(path.name, path.read_bytes()) for path in sorted((CORPUS / name).iterdir())]
