"""Carries out ``vgpu-scheduler snapshot``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.messages import fail, progress, warn
from vgpu_scheduler.cli.cluster.world import exit_on_error
from vgpu_scheduler.kube import LAST_APPLIED, SELECTING_KINDS, Object, nominators_of
from vgpu_scheduler.model import counted
from vgpu_scheduler.reading import (
    REQUIRED_KINDS,
    STDIN,
    ClusterOptions,
    MissingRightsError,
    SettingsObjects,
    read_cluster,
)
from vgpu_scheduler.whatif import when_read

_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy", "resizePolicy")
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PRIVATE_VOLUMES: Final = frozenset({"secret", "configMap", "projected", "downwardAPI"})
_OF_CONFIG_MAPS: Final = ("settings.yaml", "device-config.yaml")
_OF_DRIVERS: Final = frozenset({"volumeAttributes", "options", "secretRef", "nodePublishSecretRef"})
_MANAGED: Final = "managedFields"
_PREFIX: Final = "VGPU_"


def run(*, file: Path | None, cluster: ClusterOptions) -> None:
    """Write a snapshot."""
    with exit_on_error():
        view = read_cluster(cluster, progress)
        settings = view.settings_objects
        if cluster.config is not None:
            settings = SettingsObjects.from_settings(view.scheduler.settings, cluster.scheduler_namespace).objects
        if REQUIRED_KINDS & view.missing.keys():
            raise MissingRightsError(view)
    items = [without_private_parts(obj) for obj in (*view.objects, *settings)]
    whole = {"apiVersion": "v1", "kind": "List", "metadata": when_read(view.read_at, view.kinds), "items": items}
    text = json.dumps(whole, separators=(",", ":"))
    progress("")
    for kind, right in sorted(view.missing.items()):
        warn(f"objects of kind {kind} could not be seen ({right}): the snapshot has none")
    if file is None or file == STDIN:
        click.echo(text)
        return
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    click.echo(f"{file}: {counted(len(items), 'object')}", err=True)


def without_private_parts(obj: Object) -> dict[str, Any]:
    """Return an object without what no decision depends on and others need not see."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != _MANAGED}
    if obj.get("kind") == "Pod" and (nominators := _nominators(obj)):
        metadata[_MANAGED] = nominators
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    found = {**obj, "metadata": metadata}
    spec = obj.get("spec")
    if obj.get("kind") == "Pod" and isinstance(spec, Mapping):
        found["spec"] = _pod_spec(spec)
    if obj.get("kind") in SELECTING_KINDS:
        found = {key: found[key] for key in ("apiVersion", "kind", "metadata") if key in found}
        found["spec"] = {"selector": spec.get("selector")} if isinstance(spec, Mapping) else {}
    if obj.get("kind") == "ConfigMap":
        found["data"] = {key: text for key, text in (obj.get("data") or {}).items() if key in _OF_CONFIG_MAPS}
    if obj.get("kind") == "Deployment" and isinstance(spec, Mapping):
        found["spec"] = {"template": {"spec": {"containers": [_command(each) for each in _containers(spec)]}}}
    return found


def _nominators(pod: Object) -> list[dict[str, Any]]:
    """Return who nominated a pod to its node, as its managed fields tell, and nothing else of these."""
    if not (pod.get("metadata") or {}).get(_MANAGED) or not (pod.get("status") or {}).get("nominatedNodeName"):
        return []
    field: Object = {"f:status": {"f:nominatedNodeName": {}}}
    return [{"manager": name, "fieldsV1": field} for name in sorted(nominators_of(pod))] or [{}]  # it tells nobody


def _containers(spec: Object) -> list[Object]:
    inner = ((spec.get("template") or {}).get("spec") or {}).get("containers")
    return [each for each in inner if isinstance(each, Mapping)] if isinstance(inner, list) else []


def _command(container: Object) -> dict[str, Any]:
    """Return what of the scheduler's own container says how it is set."""
    ours = [each for each in container.get("env") or () if str(each.get("name", "")).startswith(_PREFIX)]
    return {**{key: container[key] for key in ("name", "args") if key in container}, "env": ours}


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
            {key: _source(value) for key, value in volume.items()}
            for volume in spec["volumes"]
            if isinstance(volume, Mapping) and not _PRIVATE_VOLUMES & volume.keys()
        ]
    return found


def _source(value: object) -> object:
    """Return a volume's source without what a driver is told, which may be a secret."""
    return {k: v for k, v in value.items() if k not in _OF_DRIVERS} if isinstance(value, Mapping) else value
