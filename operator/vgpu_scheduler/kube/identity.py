"""Which object, in which version: what lists of metadata alone tell."""

from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Encoded, decode_object
from vgpu_scheduler.kube.wire import WirePartial


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


_partials: Final = msgspec.json.Decoder(WirePartial)


def decode_identity(obj: Encoded) -> ObjectIdentity:
    """Read of an object which one it is.

    Raises
    ------
    DecodeError
        If its metadata cannot be read.
    """
    return decode_object(obj, "PartialObjectMetadata", _partials, _identity)


def _identity(wire: WirePartial) -> ObjectIdentity:
    meta = wire.metadata
    return ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.version)
