"""Which object, in which version: what lists of metadata alone tell. And where a pod is, whatever else it says."""

from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Encoded, decode_object
from vgpu_scheduler.kube.wire import WirePartial, WirePlacedPod


class ObjectIdentity(msgspec.Struct, frozen=True, gc=False):
    """An object of the API server, of which only this is read.

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
    """A pod of which only this is read: one that cannot be read as a whole is somewhere all the same.

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
    """Read of an object which one it is.

    Raises
    ------
    DecodeError
        If its metadata cannot be read.
    """
    return decode_object(obj, "PartialObjectMetadata", _partials, _identity)


def decode_whereabouts(obj: Encoded) -> PodWhereabouts:
    """Read of a pod which one it is, and where.

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
