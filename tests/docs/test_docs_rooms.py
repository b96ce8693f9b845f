"""The picture of the rooms: every room, and the imports that do not follow from others."""

from __future__ import annotations

import re
from pathlib import Path

from docs.rooms_picture import PACKAGE, imports, picture, reduced, rooms

ROOT = Path(__file__).parents[2]


def test_every_room_is_drawn_once_with_what_is_said_of_it() -> None:
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture())
    folders = {path.parent.name for path in (ROOT / "operator" / PACKAGE).glob("*/__init__.py")} - {"settings"}
    assert {name for name in folders if texts.count(name) == 1} == folders
    assert "The choice of the cards on one node that a claim gets" in texts


def test_imports_go_to_earlier_rooms_only() -> None:
    names = rooms()
    found = imports(names)
    assert "engine" in found["whatif"]
    assert all(names.index(other) < names.index(room) for room, others in found.items() for other in others)


def test_imports_that_follow_from_others_are_left_out() -> None:
    edges = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert reduced({room: frozenset(others) for room, others in edges.items()}) == {
        "a": {"b", "d"},
        "b": {"c"},
        "c": frozenset(),
        "d": frozenset(),
    }
