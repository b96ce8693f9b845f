"""How the lists and maps of a kind merge in server-side apply, and which fields can be owned.

A path is a tuple of elements as the API server writes them: ``f:spec`` for a field, ``k:{"name":"main"}`` for an item
of a list with keys, ``v:"x"`` for an element of a set.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .patches import PRIMITIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .resources import Resource

Object = dict[str, Any]
Path = tuple[str, ...]

_KEYS = {"ports": ("containerPort", "protocol"), "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable")}
_ATOMIC_MAPS = frozenset(("nodeSelector", "labelSelector", "involvedObject", "claimRef", "dataSource"))
_IGNORED_METADATA = frozenset(
    (
        *("name", "namespace", "generateName", "uid", "resourceVersion", "generation", "selfLink", "managedFields"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    )
)
_DEFAULT_KEYS = {"protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How the lists and maps of a kind merge.

    Attributes
    ----------
    list_keys
        The keys of each list's items, by the field names leading to it; empty for a set. Other lists are atomic.
    atomic_maps
        The names of maps that are owned as a whole.
    """

    list_keys: Mapping[tuple[str, ...], tuple[str, ...]]
    atomic_maps: frozenset[str] = frozenset()

    def keys(self, path: Path) -> tuple[str, ...] | None:
        """Return the keys of the list at a path, ``()`` for a set, ``None`` for an atomic list."""
        return self.list_keys.get(tuple(part[2:] for part in path if part.startswith("f:")))

    def _keys_of(self, value: Any, path: Path) -> tuple[str, ...] | None:
        """Return the keys of a value's items; None if it does not merge: not a list, or items without the keys."""
        keys = self.keys(path) if isinstance(value, list) else None
        return None if keys and not all(isinstance(item, dict) for item in value) else keys

    def atomic(self, path: Path) -> bool:
        """Tell whether the map at a path is owned as a whole."""
        return bool(path) and path[-1][2:] in self.atomic_maps

    def element(self, item: Any, keys: tuple[str, ...]) -> str:
        """Return the path element of an item of a list."""
        if not keys:
            return "v:" + to_json(item)
        found = {key: item.get(key, _DEFAULT_KEYS.get(key)) for key in keys}
        return "k:" + to_json({key: value for key, value in found.items() if value is not None})

    def leaves(self, obj: Object) -> dict[Path, Any]:
        """Return the fields of an object that can be owned, with their values."""
        found: dict[Path, Any] = {}
        for name, value in obj.items():
            if name == "metadata":
                owned = {key: part for key, part in value.items() if key not in _IGNORED_METADATA}
                if owned:
                    self._leaves(owned, ("f:metadata",), found)
            elif name not in {"apiVersion", "kind"}:
                self._leaves(value, (f"f:{name}",), found)
        return found

    def _leaves(self, value: Any, path: Path, found: dict[Path, Any]) -> None:
        if isinstance(value, dict) and value and not self.atomic(path):
            for name, part in value.items():
                self._leaves(part, (*path, f"f:{name}"), found)
            return
        keys = self._keys_of(value, path) if value else None
        if keys is None:
            found[path] = value
            return
        for item in value:
            inner = (*path, self.element(item, keys))
            found[inner] = None if keys else item  # the item's existence; its fields are leaves of their own
            if keys:
                for name, part in item.items():
                    self._leaves(part, (*inner, f"f:{name}"), found)

    # ------------------------------------------------------------------------------------------------ merging

    def merge(self, live: Any, applied: Any, path: Path = ()) -> Any:
        """Return the live value with the applied one merged into it."""
        if isinstance(live, dict) and isinstance(applied, dict) and not self.atomic(path):
            merged = dict(live)
            for name, part in applied.items():
                inner = (*path, f"f:{name}")
                merged[name] = self.merge(live[name], part, inner) if name in live else part
            return merged
        keys = self._keys_of(applied, path)
        if keys is None or self._keys_of(live, path) is None:
            return applied
        wanted = {self.element(item, keys): item for item in applied}
        merged_items = []
        for item in live:
            element = self.element(item, keys)
            fresh = wanted.pop(element, None)
            merged_items.append(item if fresh is None else self.merge(item, fresh, (*path, element)))
        return [*merged_items, *wanted.values()]

    def remove(self, value: Any, fields: Iterable[Path]) -> None:
        """Remove fields from an object, and maps and lists that become empty by that."""
        for field in sorted(fields, key=len, reverse=True):
            self._remove(value, field, ())

    def _remove(self, value: Any, field: Path, path: Path) -> None:
        element, inner = field[0], (*path, field[0])
        if isinstance(value, dict):
            name = element[2:]
            if len(field) > 1 and name in value:
                self._remove(value[name], field[1:], inner)
            if name in value and (len(field) == 1 or value[name] in ({}, [])):
                del value[name]
        elif isinstance(value, list):
            keys = self.keys(path) or ()
            for index, item in enumerate(value):
                if self.element(item, keys) == element:
                    if len(field) == 1:
                        del value[index]
                    else:
                        self._remove(item, field[1:], inner)
                    return


def to_json(value: Any) -> str:
    """Return a value as it is written into path elements."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def shape_of(resource: Resource) -> Shape:
    """Return the shape of a kind, from its schema or from the merge keys of a built-in kind."""
    if resource.schema is not None:
        lists, maps = {}, set()
        for path, schema in _parts(resource.schema, ()):
            kind = schema.get("x-kubernetes-list-type")
            if kind in {"map", "set"}:
                lists[path] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            if schema.get("x-kubernetes-map-type") == "atomic":
                maps.add(path[-1])
        return Shape(lists, frozenset(maps))
    keys = resource.merge_keys or {}
    merged = {path: () if key == PRIMITIVE else _KEYS.get(path[-1], (key,)) for path, key in keys.items()}
    return Shape(merged, _ATOMIC_MAPS)


def _parts(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if path:
        yield path, schema
    for name, part in (schema.get("properties") or {}).items():
        yield from _parts(part, (*path, name))
    if isinstance(schema.get("items"), dict):
        for inner, part in _parts(schema["items"], path):
            if inner != path:
                yield inner, part
