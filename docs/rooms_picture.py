"""Draws the rooms of the package and who imports whom, for the page on the architecture: docs/rooms.svg.

The order of the rooms is that of the contract in pyproject.toml, what is said of each the first sentence of its
docstring, and the arcs are the imports themselves; those that follow from others are left out.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "vgpu_scheduler"
ROW, TOP, LEFT, BOX, WIDTH = 30, 46, 250, 120, 1080
_STEP = 11
"""How much further out an arc bends for each room that it passes."""
_ORDER = "Rooms import only the rooms above them"
"""The contract that has the rooms in their order; another one has the parts of one room."""
_PURE, _OTHER = "#dcefe3", "#e3e8f4"
_STYLE = (
    "text{font-family:ui-sans-serif,system-ui,sans-serif;font-size:13px;fill:#1f2430}"
    ".name{font-weight:600;text-anchor:middle}.told{font-size:12px;fill:#4a5163}"
    ".arc{fill:none;stroke:#7a86a8;stroke-width:1.3}.head{fill:#7a86a8}"
)


def rooms() -> list[str]:
    """Return the rooms in the order of the contract, the one that imports none first."""
    (layers,) = (contract["layers"] for contract in _contracts() if contract["name"] == _ORDER)
    return [name for layer in reversed(layers) for name in re.split(r"\s*[|:]\s*", layer)]


def pure_rooms() -> frozenset[str]:
    """Return the rooms that know no I/O."""
    (modules,) = (
        contract["source_modules"] for contract in _contracts() if "asyncio" in contract.get("forbidden_modules", ())
    )
    return frozenset(module.removeprefix(f"{PACKAGE}.") for module in modules)


def _contracts() -> list[dict[str, Any]]:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(content["tool"]["importlinter"]["contracts"])


def imports(names: list[str]) -> dict[str, frozenset[str]]:
    """Return which other rooms each room imports, what is for type checkers only aside."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {name: set() for name in names}
    for module in graph.modules:
        room = _room(module)
        if room in found:
            others = {_room(other) for other in graph.find_modules_directly_imported_by(module)}
            found[room] |= others & found.keys() - {room}
    return {room: frozenset(others) for room, others in found.items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def reduced(edges: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the imports without those that follow from others."""
    reached: dict[str, frozenset[str]] = {}

    def reach(room: str) -> frozenset[str]:
        if room not in reached:
            reached[room] = edges[room].union(*map(reach, edges[room]))
        return reached[room]

    return {
        room: frozenset(other for other in others if not any(other in reach(third) for third in others - {other}))
        for room, others in edges.items()
    }


def told(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / "operator" / PACKAGE / room / "__init__.py").read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").rstrip(".")


def picture() -> str:
    """Return the picture as SVG."""
    names = rooms()
    pure, edges = pure_rooms(), reduced(imports(names))
    place = {name: number for number, name in enumerate(names)}
    middle = {name: TOP + ROW * number + ROW / 2 for name, number in place.items()}
    label = "The rooms of vgpu_scheduler, and which room imports which"
    size = f'width="{WIDTH}" height="{TOP + ROW * len(names) + 16}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(80, 25, "told", "arcs: who imports whom"),
        _box(LEFT, 14, 14, 14, _PURE),
        _text(LEFT + 20, 25, "told", "pure: no I/O, no clock, no settings"),
        _box(LEFT + 260, 14, 14, 14, _OTHER),
        _text(LEFT + 280, 25, "told", "talks to the world"),
    ]
    lines += [
        _arc(middle[name], middle[other], place[name] - place[other])
        for name in names
        for other in sorted(edges[name], key=place.__getitem__)
    ]
    for name, y in middle.items():
        lines += [
            _box(LEFT, y - 11, BOX, 22, _PURE if name in pure else _OTHER),
            _text(LEFT + BOX / 2, y + 4.5, "name", name),
            _text(LEFT + BOX + 14, y + 4.5, "told", told(name)),
        ]
    return "\n".join([*lines, "</svg>"])


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="4" stroke="#9aa3b8" fill="{colour}"/>'


def _text(x: float, y: float, kind: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _arc(source: float, target: float, passed: int) -> str:
    """Draw an import: it leaves a box a little above its middle, and comes in a little below."""
    begin, end, out = source - 4, target + 4, LEFT - 10 - _STEP * passed
    return (
        f'<path class="arc" d="M{LEFT},{begin:g} C{out},{begin:g} {out},{end:g} {LEFT - 6},{end:g}"/>'
        f'<path class="head" d="M{LEFT},{end:g} l-7,-3.5 v7 z"/>'
    )
