"""Namespaces, as far as they are understood here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube.decoding import Decode, decoder_of
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


def _namespace(wire: _WireNamespace) -> Namespace:
    meta = wire.metadata
    return Namespace(meta.name, meta.labels or {}, meta.version, meta.uid)


decode_namespace: Final[Decode[Namespace]] = decoder_of("Namespace", _WireNamespace, _namespace)
"""Reads a namespace."""
