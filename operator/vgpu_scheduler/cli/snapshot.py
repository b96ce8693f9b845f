"""Carries out ``vgpu-scheduler snapshot``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.look import look
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.world import give_up, guarded, progress

Object = Mapping[str, Any]

_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy", "resizePolicy")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PRIVATE_VOLUMES: Final = frozenset({"secret", "configMap", "projected", "downwardAPI"})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def run(*, file: Path | None, cluster: ClusterOptions) -> None:
    """Write a snapshot."""
    seen = guarded(lambda: look(cluster, progress))
    items = [without_private_parts(obj) for obj in (*seen.objects, *seen.installed)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, separators=(",", ":"))
    progress("")
    for kind, right in sorted(seen.missing.items()):
        click.echo(f"warning: objects of kind {kind} could not be seen ({right}): the snapshot has none", err=True)
    if file is None:
        click.echo(text)
        return
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        give_up(f"{file}: {error.strerror}")
    click.echo(f"{file}: {len(items)} objects", err=True)


def without_private_parts(obj: Object) -> dict[str, Any]:
    """Return an object without what no decision depends on and others need not see."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    found = {**obj, "metadata": metadata}
    spec = obj.get("spec")
    if obj.get("kind") == "Pod" and isinstance(spec, Mapping):
        found["spec"] = _pod_spec(spec)
    return found


def _pod_spec(spec: Object) -> dict[str, Any]:
    found = dict(spec)
    for field in _CONTAINERS:
        if isinstance(spec.get(field), list):
            found[field] = [
                {key: container[key] for key in _OF_CONTAINERS if key in container}
                for container in spec[field]
                if isinstance(container, Mapping)
            ]
    if isinstance(spec.get("volumes"), list):
        found["volumes"] = [
            volume for volume in spec["volumes"] if isinstance(volume, Mapping) and not _PRIVATE_VOLUMES & volume.keys()
        ]
    return found
