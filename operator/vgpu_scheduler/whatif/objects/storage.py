"""Storage objects from files, and the volume claims that controllers would make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vgpu_scheduler.kube import Object

_IS_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


NOT_CREATED_YET: Final = "not created yet"
"""Stands for a time of creation after all others."""


def newest_class(created: Mapping[str, str]) -> str:
    """Return the default class that admission takes of several: the newest one, the first by name of the newest.

    Parameters
    ----------
    created
        The times of creation by name.
    """
    newest = max(created.values(), default="")
    return min((name for name, time in created.items() if time == newest), default="")


def is_default_class(obj: Object) -> bool:
    """Tell whether a StorageClass is a default class."""
    annotations = (obj.get("metadata") or {}).get("annotations")
    return isinstance(annotations, Mapping) and any(annotations.get(name) == "true" for name in _IS_DEFAULT)


def with_default_class(claim: Object, default: str) -> Object:
    """Return a new claim with the default class, if it names none, as admission fills it in."""
    spec = claim.get("spec")
    if not default or not isinstance(spec, Mapping) or spec.get("storageClassName") is not None:
        return claim
    return {**claim, "spec": {**spec, "storageClassName": default}}


def ephemeral_volume_claims(pod: Object, name: str, namespace: str, uid: str) -> Sequence[Object]:
    """Return the claims that the ephemeral volume controller makes for a pod."""
    spec = pod.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, Mapping) else None
    made = []
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("ephemeral") if isinstance(volume, Mapping) else None
        template = source.get("volumeClaimTemplate") if isinstance(source, Mapping) else None
        if isinstance(template, Mapping):
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            metadata = {"name": f"{name}-{volume.get('name', '')}", "namespace": namespace, "ownerReferences": [owner]}
            made.append({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template.get("spec")})
    return made
