"""Kubernetes objects from files: lists are flattened, and objects ordered so that each follows those it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vgpu_scheduler.kube import DecodeError, Node, Object, decode_node
from vgpu_scheduler.model import namespaced_name
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND

_Value = TypeVar("_Value")


class InvalidObjectsError(ValueError):
    """Objects from which no cluster can be made; the message names the object and the field."""


@dataclass(frozen=True, slots=True)
class WorldProblem:
    """A problem with an object: it cannot be understood, or contradicts other objects.

    Attributes
    ----------
    kind, name
        The object; a namespaced name includes the namespace.
    text
        The problem, including the object.
    missing_node
        The node that the object refers to and that does not exist; empty for other problems.
    """

    kind: str
    name: str
    text: str
    missing_node: str = ""

    def __str__(self) -> str:
        return self.text


class FileObject(dict[str, Any]):
    """An object from a file.

    Attributes
    ----------
    origin
        The path of the file.
    is_named_here
        Whether its name stands for one that the API server would make of ``metadata.generateName``.
    """

    origin = ""
    is_named_here = False


def origin_of(obj: Object) -> str:
    """Return the file of an object as the beginning of a message; empty if unknown."""
    return f"{obj.origin}: " if isinstance(obj, FileObject) else ""


def flatten(objects: Iterable[Object]) -> Iterable[Object]:
    """Yield objects and the items of lists, ordered so that each object follows those it refers to."""
    ranks = {
        "Namespace": 0,
        "PriorityClass": 0,
        CLUSTER_KIND: 1,
        NAMESPACED_KIND: 1,
        "Device": 2,
        "Node": 3,
        "StorageClass": 3,
    }
    return sorted(_items(objects), key=lambda obj: ranks.get(str(obj.get("kind", "")), 4))


def _items(objects: Iterable[Object]) -> Iterable[Object]:
    for obj in objects:
        if not isinstance(obj, Mapping):
            raise InvalidObjectsError(f"{str(obj)[:40]!r} is not a Kubernetes object")
        if not isinstance(obj.get("kind", ""), str):
            raise InvalidObjectsError(f"kind: {str(obj['kind'])[:40]!r} is not a kind")
        if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
            yield from _items(obj["items"])
        else:
            yield _without_empty_namespace(obj)


def _without_empty_namespace(obj: Object) -> Object:
    """Return an object without a namespace that is empty or null, as templates render it: it means the default one."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("namespace", "default") not in ("", None):
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}


def group_of(obj: Object) -> str:
    """Return the API group of an object; for the core group, the version."""
    return str(obj.get("apiVersion") or "").partition("/")[0]


def name_of(obj: Object) -> str:
    """Return the name of an object, with the namespace if it has one; pods default to namespace ``default``."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    namespace = namespace_of(metadata) if obj.get("kind") == "Pod" else metadata.get("namespace") or ""
    return namespaced_name(namespace, str(metadata.get("name", "")))


def namespace_of(metadata: Object) -> str:
    """Return the namespace in the metadata of a namespaced object, by default ``default``."""
    return str(metadata.get("namespace") or "default")


def metadata_of(obj: Object) -> Mapping[str, Any]:
    """Return the metadata of an object.

    Raises
    ------
    InvalidObjectsError
        If it has none.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        raise InvalidObjectsError(f"{obj.get('kind') or 'an object'}: metadata is missing")
    return metadata


def annotations_in(obj: Object) -> Mapping[str, Any]:
    """Return the annotations of an object as it was written."""
    return (obj.get("metadata") or {}).get("annotations") or {}


def decoded(decode: Callable[[Object], _Value], obj: Object, metadata: Object) -> _Value:
    """Decode an object with its metadata replaced.

    Raises
    ------
    InvalidObjectsError
        If the object cannot be understood.
    """
    try:
        return decode({**obj, "metadata": metadata})
    except DecodeError as error:
        raise InvalidObjectsError(str(error)) from None
    except (OverflowError, UnicodeEncodeError) as error:  # such values cannot come from an API server
        raise InvalidObjectsError(f"{obj.get('kind')} {metadata.get('name', '')}: {error}") from None


def with_uid(kind: str, obj: Object) -> dict[str, Any]:
    """Return the metadata of an object with a UID, which objects in files may lack."""
    metadata = metadata_of(obj)
    uid = metadata.get("uid") or f"{kind}-{metadata.get('namespace', '')}-{metadata.get('name', '')}"
    return {**metadata, "uid": uid}


def read_node(obj: Object) -> Node:
    """Decode a node, adding a UID if it has none.

    Raises
    ------
    InvalidObjectsError
        If the node cannot be understood.
    """
    metadata = metadata_of(obj)
    return decoded(decode_node, obj, {**metadata, "uid": metadata.get("uid") or f"node-{metadata.get('name', '')}"})
