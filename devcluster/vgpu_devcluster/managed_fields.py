"""Field ownership: sets of field paths, their form in ``managedFields``, and how writes change them.

Fields are tracked from an object's first server-side apply on; earlier fields belong to ``before-first-apply``. The API
server tracks them from the creation on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .shapes import Path, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
Fields = frozenset[Path]

APPLY, UPDATE = "Apply", "Update"
BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Manager:
    """A field manager: its name, operation and subresource."""

    name: str
    operation: str
    subresource: str = ""


Owned = dict[Manager, Fields]


# ---------------------------------------------------------------------------------------------------- managedFields


def read(metadata: Object) -> Owned:
    """Return the owners of an object's fields."""
    return {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): frozenset(
            _paths(entry.get("fieldsV1") or {}, ())
        )
        for entry in metadata.get("managedFields") or ()
    }


def _paths(tree: Object, path: Path) -> Iterable[Path]:
    if path and (not tree or "." in tree):
        yield path
    for element, below in tree.items():
        if element != ".":
            yield from _paths(below, (*path, element))


def write(owned: Owned, old: list[Object], api_version: str, time: str) -> list[Object]:
    """Return ``managedFields``; an unchanged entry keeps its time, and applies come first."""
    times = {(entry["manager"], entry["operation"], entry.get("subresource", "")): entry for entry in old}
    entries = []
    for manager, fields in owned.items():
        if not fields:
            continue
        tree = _tree(fields)
        before = times.get((manager.name, manager.operation, manager.subresource), {})
        stamp = before["time"] if before.get("fieldsV1") == tree else time
        entry = {"manager": manager.name, "operation": manager.operation, "apiVersion": api_version, "time": stamp}
        below = {"subresource": manager.subresource} if manager.subresource else {}
        entries.append({**entry, "fieldsType": "FieldsV1", "fieldsV1": tree, **below})
    return sorted(entries, key=lambda entry: (entry["operation"], entry["time"]))


def _tree(fields: Fields) -> Object:
    tree: Object = {}
    for path in sorted(fields):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _trimmed(tree)


def _trimmed(tree: Object) -> Object:
    """Return a tree in which a field without subfields is an empty map."""
    if tree.keys() == {"."}:
        return {}
    return {element: below if element == "." else _trimmed(below) for element, below in tree.items()}


# ---------------------------------------------------------------------------------------------------- writes


def after_update(owned: Owned, manager: Manager, old: Mapping[Path, Any], new: Mapping[Path, Any]) -> Owned:
    """Return the owners after a write other than an apply: a manager owns the fields that it changes."""
    removed = frozenset(old.keys() - new.keys())
    changed = frozenset(path for path, value in new.items() if path not in old or old[path] != value)
    kept = {one: fields - changed - removed for one, fields in owned.items()}
    kept[manager] = kept.get(manager, frozenset()) | changed
    return kept


def conflicts(owned: Owned, manager: Manager, changed: Fields) -> list[tuple[Manager, Path]]:
    """Return the fields changed by an apply that other managers own."""
    others = sorted((one for one in owned if one != manager), key=lambda one: (one.name, one.operation))
    return [(one, path) for one in others for path in sorted(owned[one] & changed)]


def shown(path: Path) -> str:
    """Return a path in words, as ``.spec.containers[name="main"].image``."""
    text = ""
    for element in path:
        kind, value = element[0], element[2:]
        if kind == "f":
            text += f".{value}"
        elif kind == "v":
            text += f"[={value}]"
        else:
            text += "[" + ",".join(f"{key}={to_json(part)}" for key, part in json.loads(value).items()) + "]"
    return text
