"""Kubernetes objects as files have them: lists taken apart, in an order in which each finds what it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vgpu_scheduler.kube import DecodeError, Node, Object, decode_node
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND

_Value = TypeVar("_Value")


class WorldError(ValueError):
    """Objects that make no cluster; the message names the object and the field."""


@dataclass(frozen=True, slots=True)
class WorldProblem:
    """Something about an object that could not be understood, or that does not go together with the others.

    Attributes
    ----------
    kind, name
        Of which object; the name has the namespace before it, where there is one.
    text
        What is the matter, with the object.
    missing_node
        The node that is not there, where that is the matter; empty else.
    """

    kind: str
    name: str
    text: str
    missing_node: str = ""

    def __str__(self) -> str:
        return self.text


class FileObject(dict[str, Any]):
    """An object of a file.

    Attributes
    ----------
    origin
        The file.
    """

    origin = ""


def origin_of(obj: Object) -> str:
    """Return the file that an object is from, as the beginning of a message; empty where that is not known."""
    return f"{obj.origin}: " if isinstance(obj, FileObject) else ""


def flatten(objects: Iterable[Object]) -> Iterable[Object]:
    """Yield objects, and the items of lists of objects, in an order in which each finds what it refers to."""
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
            raise WorldError(f"{str(obj)[:40]!r} is no Kubernetes object")
        if not isinstance(obj.get("kind", ""), str):
            raise WorldError(f"kind: {str(obj['kind'])[:40]!r} is no kind")
        if str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
            yield from _items(obj["items"])
        else:
            yield obj


def group_of(obj: Object) -> str:
    """Return the API group of an object; of those without any, the version."""
    return str(obj.get("apiVersion") or "").partition("/")[0]


def name_of(obj: Object) -> str:
    """Return the name of an object, with its namespace before it where it has one, or is a pod."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    namespace = metadata.get("namespace") or ("default" if obj.get("kind") == "Pod" else "")
    return f"{namespace}/{metadata.get('name', '')}" if namespace else str(metadata.get("name", ""))


def metadata_of(obj: Object) -> Mapping[str, Any]:
    """Return the metadata of an object.

    Raises
    ------
    WorldError
        If it has none.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        raise WorldError(f"{obj.get('kind') or 'an object'}: metadata is missing")
    return metadata


def decoded(decode: Callable[[Object], _Value], obj: Object, metadata: Object) -> _Value:
    """Read an object with other metadata than its own.

    Raises
    ------
    WorldError
        If it cannot be understood.
    """
    try:
        return decode({**obj, "metadata": metadata})
    except DecodeError as error:
        raise WorldError(str(error)) from None
    except (OverflowError, UnicodeEncodeError) as error:  # no JSON of an API server could say this
        raise WorldError(f"{obj.get('kind')} {metadata.get('name', '')}: {error}") from None


def with_uid(kind: str, obj: Object) -> dict[str, Any]:
    """Return the metadata of an object, which need not have a UID in a file."""
    metadata = metadata_of(obj)
    uid = metadata.get("uid") or f"{kind}-{metadata.get('namespace', '')}-{metadata.get('name', '')}"
    return {**metadata, "uid": uid}


def read_node(obj: Object) -> Node:
    """Read a node; one without a UID gets one.

    Raises
    ------
    WorldError
        If it cannot be understood.
    """
    metadata = metadata_of(obj)
    return decoded(decode_node, obj, {**metadata, "uid": metadata.get("uid") or f"node-{metadata.get('name', '')}"})
