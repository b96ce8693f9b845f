"""The objects that describe groups of pods, as coscheduling and Volcano define them."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Decode, Encoded, decoder_of
from vgpu_scheduler.kube.wire import FieldError, Wire, WireMeta

__all__ = ["PodGroup", "decode_pod_group"]

_MOST: Final = 2**31 - 1


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """An object that describes a group of pods.

    Attributes
    ----------
    kind
        ``PodGroup`` with its API group: there are several kinds of that name.
    resource_version
        Version of the object; 0 if it has none (a file).
    minimum
        ``spec.minMember``: how many pods of the group have to be placed before any of them is.
    """

    kind: str
    uid: str
    namespace: str
    name: str
    resource_version: int
    minimum: int

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class _WireSpec(Wire):
    min_member: int = 1


class _WirePodGroup(Wire):
    metadata: WireMeta
    spec: _WireSpec | None = None


def _build(kind: str, wire: _WirePodGroup) -> PodGroup:
    meta, minimum = wire.metadata, (wire.spec or _WireSpec()).min_member
    if not 0 <= minimum <= _MOST:
        raise FieldError("spec.minMember", f"{minimum} is no number of pods")
    return PodGroup(
        kind=kind,
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        resource_version=meta.version,
        minimum=minimum,
    )


@cache
def _decoder(kind: str) -> Decode[PodGroup]:
    return decoder_of(kind, _WirePodGroup, partial(_build, kind))


def decode_pod_group(kind: str, obj: Encoded) -> PodGroup:
    """Read an object that describes a group of pods.

    Parameters
    ----------
    kind
        Its kind, with its API group.

    Raises
    ------
    DecodeError
        If it cannot be read.
    """
    return _decoder(kind)(obj)
