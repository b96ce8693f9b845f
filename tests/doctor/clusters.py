"""A healthy cluster as the API would show it, for tests that break one thing of it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.engine.builders import allocation, cards, node_object, pod_object

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.doctor import (
    EXAMINED_KINDS,
    ROLE_KINDS,
    DoctorInput,
    ExpectedSettings,
    Finding,
    Rbac,
    Report,
    Server,
    decode_objects,
    examine,
    inventory_kind,
)
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import crds

MANIFESTS = Path(__file__).parents[2] / "manifests"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SYSTEM, KUBE_SYSTEM = "vgpu-system", "kube-system"
EXPECTED = ExpectedSettings(
    source="the test",
    options=EngineOptions((hami_dialect(),), unlisted=(volcano_dialect(), koordinator_dialect())),
    namespace=SYSTEM,
    lease_name="vgpu-scheduler",
    lease_namespace=SYSTEM,
    lease_seconds=8.0,
)
SERVER = Server("https://example", (1, 36), NOW, NOW)
PLUGIN_FOLDER = {"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}

Obj = dict[str, Any]
Objects = dict[str, list[Obj]]


def ago(seconds: float) -> str:
    """Return a time as Kubernetes writes it."""
    return f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"


def workload(name: str, image: str, namespace: str = KUBE_SYSTEM, account: str = "", **spec: Any) -> Obj:
    """Return a DaemonSet or Deployment of one container."""
    container: Obj = {"name": "main", "image": image}
    template = {"spec": {"containers": [container], "serviceAccountName": account or name, **spec}}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {}},
        "spec": {"replicas": 1, "template": template},
        "status": {"readyReplicas": 1},
    }


def daemon_pod(owner: str, node: str) -> Obj:
    """Return a pod of a DaemonSet on a node."""
    pod = pod_object(
        f"{owner}-{node}", {}, namespace=KUBE_SYSTEM, scheduler="default-scheduler", nodeName=node, started=True
    )
    pod["metadata"]["ownerReferences"] = [{"uid": f"uid-{owner}", "controller": True}]
    return pod


def tenant(name: str, node: str, *slices: tuple[str, int, int], **more: Any) -> Obj:
    """Return a running pod that was given slices on a node."""
    notes = {**allocation(node, *slices), "hami.io/bind-phase": "success"}
    return pod_object(name, annotations=notes, started=True, nodeName=node, **more)


def scheduler_pod(name: str, image: str = "vgpu-scheduler:0.1.0") -> Obj:
    """Return a replica of the scheduler."""
    found = pod_object(name, {}, namespace=SYSTEM, scheduler="default-scheduler", started=True, nodeName="a")
    found["metadata"]["labels"] = {"app.kubernetes.io/name": "vgpu-scheduler"}
    found["spec"]["containers"][0]["image"] = image
    return found


def lease(namespace: str = SYSTEM, renewed: float = 1.0, written: float | None = None, holder: str = "r_1") -> Obj:
    """Return a Lease that was renewed so many seconds ago."""
    stamp = f"{NOW - timedelta(seconds=renewed if written is None else written):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "metadata": {"name": "vgpu-scheduler", "namespace": namespace, "managedFields": [{"time": stamp}]},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": ago(renewed)},
    }


def policy(
    name: str = "shared",
    *,
    ready: str = "True",
    conflicted: str = "False",
    warnings: str = "False",
    generation: int = 1,
) -> Obj:
    """Return a policy with what became of it."""
    conditions = [
        {"type": "Ready", "status": ready, "message": "spec.nodes: no such scorer", "observedGeneration": 1},
        {"type": "Conflicted", "status": conflicted, "message": "same priority as other", "observedGeneration": 1},
        {
            "type": "Warnings",
            "status": warnings,
            "message": "it lets in no card that there is",
            "observedGeneration": 1,
        },
    ]
    metadata, spec = {"name": name, "generation": generation}, {"nodes": {"policy": "binpack"}}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


def shipped_objects(*files: str) -> Objects:
    """Return the objects of some manifests, by kind."""
    found: Objects = {}
    for file in files:
        for obj in deepcopy(_read(file)):
            found.setdefault(obj["kind"], []).append(obj)
    return found


@cache
def _read(file: str) -> list[Obj]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


@cache
def _definitions() -> tuple[Obj, ...]:
    return crds()


def healthy() -> Objects:
    """Return the objects of a cluster in which nothing is wrong."""
    own = workload("vgpu-scheduler", "vgpu-scheduler:0.1.0", SYSTEM)
    own["metadata"]["labels"] = {"app.kubernetes.io/name": "vgpu-scheduler"}
    definitions: list[Obj] = deepcopy(list(_definitions()))
    for definition in definitions:
        definition["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return {
        **shipped_objects("admission.yaml", "allocation-writers.yaml"),
        **_joined(shipped_objects("rbac.yaml", "volume-binding.yaml"), shipped_objects("allocation-writers.yaml")),
        "Node": [node_object("a", cards("a", 2)), node_object("b", cards("b", 2))],
        "Namespace": [{"metadata": {"name": name}} for name in ("default", SYSTEM, KUBE_SYSTEM)],
        "Pod": [
            tenant("web", "a", ("a-gpu-0", 1000, 10)),
            tenant("db", "b", ("b-gpu-0", 1000, 10)),
            daemon_pod("hami-device-plugin", "a"),
            daemon_pod("hami-device-plugin", "b"),
            scheduler_pod("vgpu-scheduler-1"),
        ],
        "DaemonSet": [workload("hami-device-plugin", "projecthami/hami:v2.10.0", volumes=[PLUGIN_FOLDER])],
        "Deployment": [own],
        "Lease": [lease()],
        "CustomResourceDefinition": definitions,
        "ClusterVGPUPolicy": [policy()],
        "VGPUPolicy": [],
        "ResourceQuota": [],
        "ResourceSlice": [],
    }


def _joined(*parts: Objects) -> Objects:
    found: Objects = {}
    for part in parts:
        for kind, objects in part.items():
            found.setdefault(kind, []).extend(objects)
    return found


def see(
    objects: Objects,
    expected: ExpectedSettings = EXPECTED,
    server: Server = SERVER,
    missing: Mapping[str, str] | None = None,
) -> DoctorInput:
    """Read objects as the command does; who may do what is answered by the roles among them."""
    values: dict[str, list[Any]] = {}
    findings: list[Finding] = []
    inventories = (kind for dialect in expected.options.dialects if (kind := dialect.inventory.kind))
    for listed in (*EXAMINED_KINDS, *ROLE_KINDS, *map(inventory_kind, inventories)):
        if listed.kind not in (missing or {}):
            values[listed.kind], unreadable = decode_objects(listed, objects.get(listed.kind, []))
            findings += unreadable
    rights = Rbac(*(tuple(values.get(listed.kind, ())) for listed in ROLE_KINDS))
    return DoctorInput(
        expected=expected,
        server=server,
        objects=values,
        missing=missing or {},
        rights=rights,
        findings=tuple(findings),
    )


def look(objects: Objects, **more: Any) -> Report:
    """Examine objects; no check may fail by itself."""
    report = examine(see(objects, **more))
    assert not [skipped for skipped in report.skipped if "internal error" in skipped.reason], report.skipped
    return report


def found(report: Report) -> set[tuple[str, str]]:
    """Return the ids of findings, each with its object."""
    return {(finding.diagnosis.id, str(finding.ref)) for finding in report.findings}


def messages(report: Report) -> str:
    """Return what a report says, a finding a line."""
    return "\n".join(finding.message for finding in report.findings)
