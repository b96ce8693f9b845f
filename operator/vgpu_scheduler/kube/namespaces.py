"""Namespaces and ResourceQuotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube.decoding import Decode, decoder_of
from vgpu_scheduler.kube.wire import Quantities, Wire, WireMeta

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label of every namespace with its own name."""


def in_namespaces(namespace: str = "") -> str:
    """Return the phrase for one namespace, or for all if the name is empty."""
    return f"in namespace {namespace}" if namespace else "in all namespaces"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace with its labels."""

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


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """A quota of a namespace.

    Attributes
    ----------
    hard
        Limits as written, by resource name; the quantities are parsed where they are used.
    """

    namespace: str
    name: str
    hard: Mapping[str, str]
    uid: str = ""
    resource_version: int = 0


class _WireQuotaSpec(Wire):
    """``ResourceQuotaSpec``."""

    hard: Quantities | None = None


class _WireQuota(Wire):
    """``ResourceQuota``."""

    metadata: WireMeta
    spec: _WireQuotaSpec | None = None


def _quota(wire: _WireQuota) -> ResourceQuota:
    meta = wire.metadata
    return ResourceQuota(
        namespace=meta.namespace or "default",
        name=meta.name,
        hard={resource: str(limit) for resource, limit in ((wire.spec and wire.spec.hard) or {}).items()},
        uid=meta.uid,
        resource_version=meta.version,
    )


decode_quota: Final[Decode[ResourceQuota]] = decoder_of("ResourceQuota", _WireQuota, _quota)
"""Reads a ResourceQuota."""
