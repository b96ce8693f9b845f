"""ResourceQuota objects, as far as they are understood here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgpu_scheduler.kube.decoding import DecodeError


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """A quota of a namespace.

    Attributes
    ----------
    hard
        Limits as they are written, by resource name; whoever uses one reads its quantity.
    """

    namespace: str
    name: str
    hard: Mapping[str, str]
    uid: str = ""
    resource_version: int = 0


def decode_quota(obj: Mapping[str, Any]) -> ResourceQuota:
    """Read a ResourceQuota.

    Raises
    ------
    DecodeError
        If it has no name or no mapping of limits; the message names the object and the field.
    """
    metadata, spec = obj.get("metadata"), obj.get("spec") or {}
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise DecodeError("ResourceQuota", "", "metadata.name", "is missing")
    namespace, name = str(metadata.get("namespace") or "default"), metadata["name"]
    hard = (spec.get("hard") or {}) if isinstance(spec, Mapping) else None
    if not isinstance(hard, Mapping):
        raise DecodeError("ResourceQuota", f"{namespace}/{name}", "spec.hard", "is no mapping of quantities")
    return ResourceQuota(
        namespace=namespace,
        name=name,
        hard={str(resource): str(limit) for resource, limit in hard.items()},
        uid=str(metadata.get("uid") or ""),
        resource_version=int(metadata.get("resourceVersion") or 0),
    )
