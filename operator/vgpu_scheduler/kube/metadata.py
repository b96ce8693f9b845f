"""Decoding of metadata alone: identity, version and field managers of an object, and the node of a malformed pod."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vgpu_scheduler.kube.decoding import DecodeError, Encoded, decode_object
from vgpu_scheduler.kube.wire import Wire, WirePartial, WirePlacedPod

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the applied configuration."""


class ObjectIdentity(msgspec.Struct, frozen=True, gc=False):
    """The identity of an object of the API server.

    Attributes
    ----------
    namespace
        Empty for an object without one.
    resource_version
        Version of the object.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int


class PodWhereabouts(msgspec.Struct, frozen=True, gc=False):
    """The identity and the node of a pod, for pods that cannot be decoded as a whole.

    Attributes
    ----------
    key
        ``namespace/name``.
    node
        The node that it is bound to; empty if it is not.
    """

    key: str
    uid: str
    resource_version: int
    node: str


_placed: Final = msgspec.json.Decoder(WirePlacedPod)
_partials: Final = msgspec.json.Decoder(WirePartial)


def decode_identity(obj: Encoded) -> ObjectIdentity:
    """Decode the identity of an object.

    Raises
    ------
    DecodeError
        If its metadata cannot be read.
    """
    return decode_object(obj, "PartialObjectMetadata", _partials, _identity)


def decode_whereabouts(obj: Encoded) -> PodWhereabouts:
    """Decode the identity and the node of a pod.

    Raises
    ------
    DecodeError
        If not even that can be read.
    """
    return decode_object(obj, "Pod", _placed, _whereabouts)


def _whereabouts(wire: WirePlacedPod) -> PodWhereabouts:
    meta = wire.metadata
    return PodWhereabouts(f"{meta.namespace}/{meta.name}", meta.uid, meta.version, wire.spec.node_name)


def _identity(wire: WirePartial) -> ObjectIdentity:
    meta = wire.metadata
    return ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.version)


MANAGER: Final = "vgpu-scheduler"
"""The field manager of leaders of this program: the user agent up to the slash."""


class _Entry(Wire):
    """``ManagedFieldsEntry``."""

    manager: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class _Meta(Wire):
    """``ObjectMeta`` with only the managed fields."""

    managed_fields: list[_Entry] | None = None


class _Managed(Wire):
    """An object with only the managed fields."""

    metadata: _Meta


_decoder: Final = msgspec.json.Decoder(_Managed)


def managers_of(obj: Encoded, kind: str, *path: str) -> frozenset[str]:
    """Return the field managers that own a field: their user agents up to the slash.

    Parameters
    ----------
    path
        The names of the fields on the path to it.

    Raises
    ------
    DecodeError
        If ``metadata.managedFields`` cannot be read.
    """
    return decode_object(obj, kind, _decoder, lambda found: _owners(found.metadata.managed_fields or (), path))


def nominators_of(pod: Encoded) -> frozenset[str]:
    """Return the field managers that own the pod's nomination; none if the managed fields cannot be read."""
    try:
        return managers_of(pod, "Pod", "status", "nominatedNodeName")
    except DecodeError:
        return frozenset()


def _owners(entries: list[_Entry] | tuple[()], path: tuple[str, ...]) -> frozenset[str]:
    return frozenset(entry.manager for entry in entries if _has(entry.fields_v1, path))


def _has(fields: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(fields, dict) or f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True
