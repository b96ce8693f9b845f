"""The three kinds of patches: merge patch, JSON patch and strategic merge patch.

All of them change ``document`` in place, which is always a private copy. Oddities of the API server that clients rely
on are kept: a JSON patch ``test`` for ``null`` passes if the key is absent (but not if its parent is), ``replace``
creates an absent key, and every JSON patch that does not apply gets the same 422 without a reason.

Strategic merge patches know the lists of the built-in kinds that have a merge key (see ``merge_keys`` of
:class:`~.resources.Resource`), ``$patch``, ``$retainKeys`` and ``$deleteFromPrimitiveList``; ``$setElementOrder`` is
accepted and ignored. All other lists are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .status import bad_request, rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Document = dict[str, Any]
Json = Any  # whatever JSON can hold
PRIMITIVE = ""  # the merge "key" of lists of plain strings, whose elements are united

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = frozenset(("application/apply-patch+yaml", "application/apply-patch+json"))


def merge(document: Document, patch: Document) -> None:
    """Apply an RFC 7386 merge patch."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            current = document.get(key)
            if not isinstance(current, dict):
                current = document[key] = {}
            merge(current, value)
        else:
            document[key] = value


# ---------------------------------------------------------------------------------------------------- JSON patch


def json_patch(document: Document, operations: list[Document]) -> None:
    """Apply an RFC 6902 patch; raise the API server's 422 when an operation does not apply."""
    for operation in operations:
        try:
            apply = _OPERATIONS[operation["op"]]
            apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise rejected() from error


def _pointer(path: str) -> list[str]:
    if not path.startswith("/"):
        raise ValueError(path)
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _parent(document: Document, path: str) -> tuple[Any, str]:
    *parents, last = _pointer(path)
    node: Any = document
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if not isinstance(node, dict | list):
        raise TypeError(path)
    return node, last


def _get(document: Document, path: str) -> Json:
    node, last = _parent(document, path)
    return node[_index(node, last)] if isinstance(node, list) else node[last]


def _index(node: list[Any], last: str) -> int:
    index = int(last)
    if not 0 <= index < len(node):
        raise IndexError(last)
    return index


def _put(document: Document, path: str, value: Json) -> None:
    node, last = _parent(document, path)
    if not isinstance(node, list):
        node[last] = value
    elif last == "-":
        node.append(value)
    else:
        node.insert(int(last) if int(last) == len(node) else _index(node, last), value)


def _add(document: Document, operation: Document) -> None:
    _put(document, operation["path"], operation["value"])


def _remove(document: Document, operation: Document) -> None:
    node, last = _parent(document, operation["path"])
    del node[_index(node, last) if isinstance(node, list) else last]


def _replace(document: Document, operation: Document) -> None:
    node, last = _parent(document, operation["path"])
    node[_index(node, last) if isinstance(node, list) else last] = operation["value"]


def _test(document: Document, operation: Document) -> None:
    node, last = _parent(document, operation["path"])
    found = node[_index(node, last)] if isinstance(node, list) else node.get(last)
    # Python holds 1 == True == 1.0; the bytes do not
    if _bytes(found) != _bytes(operation.get("value")):
        raise ValueError(operation["path"])


def _copy(document: Document, operation: Document) -> None:
    _put(document, operation["path"], msgspec.json.decode(_bytes(_get(document, operation["from"]))))


def _move(document: Document, operation: Document) -> None:
    value = _get(document, operation["from"])
    _remove(document, {"path": operation["from"]})
    _put(document, operation["path"], value)


def _bytes(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


_OPERATIONS: dict[str, Callable[[Document, Document], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "copy": _copy,
    "move": _move,
}

# ---------------------------------------------------------------------------------------------------- strategic merge


def strategic(document: Document, patch: Document, keys: Mapping[tuple[str, ...], str]) -> None:
    """Apply a strategic merge patch; ``keys`` names the merge key of each list by its path."""
    _merge_map(document, patch, keys, ())


def _merge_map(node: Document, patch: Document, keys: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> None:
    if patch.get("$patch") == "replace":
        node.clear()
    if "$retainKeys" in patch:
        for key in set(node).difference(patch["$retainKeys"]):
            del node[key]
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            node[field] = [element for element in node.get(field, ()) if element not in value]
        elif key.startswith("$"):
            continue
        elif value is None or (isinstance(value, dict) and value.get("$patch") == "delete"):
            node.pop(key, None)
        elif isinstance(value, dict):
            current = node.get(key)
            if not isinstance(current, dict):
                current = node[key] = {}
            _merge_map(current, value, keys, (*path, key))
        elif isinstance(value, list) and (*path, key) in keys:
            node[key] = _merge_list(node.get(key) or [], value, keys, (*path, key))
        else:
            node[key] = value


def _merge_list(
    current: list[Any], patch: list[Any], keys: Mapping[tuple[str, ...], str], path: tuple[str, ...]
) -> list[Any]:
    merge_key = keys[path]
    if merge_key == PRIMITIVE:
        return [*current, *(element for element in patch if element not in current)]
    added: list[Any] = []
    if any(element.get("$patch") == "replace" for element in patch):
        return [element for element in patch if "$patch" not in element]
    for element in patch:
        if merge_key not in element:
            raise bad_request(f"map: {element} does not contain declared merge key: {merge_key}")
        found = next((one for one in current if one.get(merge_key) == element[merge_key]), None)
        if element.get("$patch") == "delete":
            current = [one for one in current if one is not found]
        elif found is None:
            fresh: Document = {}
            _merge_map(fresh, element, keys, path)
            added.append(fresh)
        else:
            _merge_map(found, element, keys, path)
    return [*added, *current]  # the API server puts new elements first
