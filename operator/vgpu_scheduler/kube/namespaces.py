"""Namespaces, as far as they are understood here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from vgpu_scheduler.kube.decoding import Encoded, decode_object
from vgpu_scheduler.kube.wire import Wire, WireMeta


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace with the labels that selectors may ask about."""

    name: str
    labels: Mapping[str, str]
    resource_version: int = 0
    uid: str = ""


class _WireNamespace(Wire):
    """``Namespace``."""

    metadata: WireMeta


_namespaces = msgspec.json.Decoder(_WireNamespace)


def decode_namespace(obj: Encoded) -> Namespace:
    """Read a namespace.

    Raises
    ------
    DecodeError
        If a field that is read has the wrong type.
    """
    return decode_object(obj, "Namespace", _namespaces, _namespace)


def _namespace(wire: _WireNamespace) -> Namespace:
    meta = wire.metadata
    return Namespace(meta.name, meta.labels or {}, meta.version, meta.uid)
