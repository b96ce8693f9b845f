"""Carries out ``vgpu-scheduler snapshot``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.messages import describe_error, fail, progress, warn
from vgpu_scheduler.cli.cluster.world import exit_on_error
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.groups import POD_ANNOTATIONS, POD_LABELS
from vgpu_scheduler.kube import CONTAINER_FIELDS, LAST_APPLIED, SELECTING_KINDS, Object, nominators_of
from vgpu_scheduler.model import counted
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy import OVERRIDES
from vgpu_scheduler.reading import (
    REQUIRED_KINDS,
    STDIN,
    ClusterOptions,
    ClusterView,
    DeletedPodQuery,
    DeletedPods,
    MissingRightsError,
    PrometheusServer,
    SettingsObjects,
    deleted_pods,
    read_cluster,
)
from vgpu_scheduler.settings import VARIABLE_PREFIX
from vgpu_scheduler.whatif import when_read

_OF_CONTAINERS: Final = ("name", "image", "resources", "ports", "restartPolicy", "resizePolicy")
_CONTAINERS: Final = (*CONTAINER_FIELDS, "ephemeralContainers")
_PRIVATE_VOLUMES: Final = frozenset({"secret", "configMap", "projected", "downwardAPI"})
_OF_CONFIG_MAPS: Final = ("settings.yaml", "device-config.yaml")
_OF_DRIVERS: Final = frozenset({"volumeAttributes", "options", "secretRef", "nodePublishSecretRef"})
_MANAGED: Final = "managedFields"
_SCRAPED_WITHIN: Final = timedelta(minutes=10)
"""The longest time to the first sample of a period for which the metrics count as complete."""
_WEEK: Final = 7 * 86400
"""Seconds that Prometheus is asked about unless another time is given."""


def run(*, file: Path | None, prometheus: PrometheusServer | None, since: int | None, cluster: ClusterOptions) -> None:
    """Write a snapshot."""
    if prometheus is None and since is not None:
        raise click.UsageError("--since is for --prometheus")
    with exit_on_error():
        view = read_cluster(cluster, progress)
        settings = view.settings_objects
        if cluster.config is not None:
            settings = SettingsObjects.from_settings(view.scheduler.settings, cluster.scheduler_namespace).objects
        if REQUIRED_KINDS & view.missing.keys():
            raise MissingRightsError(view)
        deleted = None
        if prometheus is not None:
            until = view.read_at or datetime.now(UTC)
            deleted = _deleted_pods(view, prometheus, until, _WEEK if since is None else since)
    gone, gone_since = ((), None) if deleted is None else (deleted.pods, deleted.since)
    items = [without_private_parts(obj) for obj in (*view.objects, *gone, *settings)]
    metadata = when_read(view.read_at, view.kinds, gone_since)
    whole = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}
    text = json.dumps(whole, separators=(",", ":"))
    progress("")
    for kind, missing in sorted(view.missing.items()):
        warn(f"objects of kind {kind} could not be read ({missing}): the snapshot has none")
    if file is None or file == STDIN:
        click.echo(text)
        return
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        fail(describe_error(error))
    click.echo(f"{file}: {counted(len(items), 'object')}", err=True)


def _deleted_pods(view: ClusterView, prometheus: PrometheusServer, until: datetime, seconds: int) -> DeletedPods:
    """Return the deleted pods with cards that Prometheus knows of."""
    progress("querying Prometheus")
    options = view.scheduler.options
    pods = [mapping_of(obj.get("metadata")) for obj in view.objects if obj.get("kind") == "Pod"]
    dialects = Dialects(options.dialects)
    found = deleted_pods(
        prometheus,
        DeletedPodQuery(
            until,
            seconds,
            options.scheduler_names,
            resources=dialects.resources,
            annotations={*dialects.pod_annotations, *OVERRIDES.values(), *POD_ANNOTATIONS},
            labels={
                *dialects.pod_labels,
                *POD_LABELS,
                *(name for pod in pods for name in mapping_of(pod.get("labels"))),
            },
            known={str(pod.get("uid", "")) for pod in pods},
        ),
    )
    if found.since is None:
        warn("--prometheus: it has no kube_pod_created of that time: is kube-state-metrics scraped?")
    elif found.since > until - timedelta(seconds=seconds) + _SCRAPED_WITHIN:
        warn(f"--prometheus: it has metrics of kube-state-metrics only since {found.since:%Y-%m-%d %H:%M} UTC")
    return found


def without_private_parts(obj: Object) -> dict[str, Any]:
    """Return an object without private parts that no decision depends on."""
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
    """Return the managed fields of a nominated pod reduced to its nominators."""
    if not (pod.get("metadata") or {}).get(_MANAGED) or not (pod.get("status") or {}).get("nominatedNodeName"):
        return []
    field: Object = {"f:status": {"f:nominatedNodeName": {}}}
    return [{"manager": name, "fieldsV1": field} for name in sorted(nominators_of(pod))] or [{}]  # unknown nominator


def _containers(spec: Object) -> list[Object]:
    inner = ((spec.get("template") or {}).get("spec") or {}).get("containers")
    return [each for each in inner if isinstance(each, Mapping)] if isinstance(inner, list) else []


def _command(container: Object) -> dict[str, Any]:
    """Return the parts of the scheduler's container that hold its settings."""
    ours = [each for each in container.get("env") or () if str(each.get("name", "")).startswith(VARIABLE_PREFIX)]
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
    """Return a volume's source without the driver's attributes, which may be secret."""
    return {k: v for k, v in value.items() if k not in _OF_DRIVERS} if isinstance(value, Mapping) else value
