"""Objects exactly as HAMi leaves them: registrations of all generations, and pods that it has decided on or bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.e2e.conftest import PLUGIN, Cluster

from vgpu_devcluster import NVIDIA, Card, Vendor

Obj = dict[str, Any]
Limits = Mapping[str, str]

HAMI = "hami-scheduler"
NODE = "hami.io/vgpu-node"
LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"
TIME = "1767225600"
DONE = {"hami.io/bind-phase": "success", "hami.io/bind-time": TIME}
"""What is on a pod whose plugin has answered."""


def _colons(cards: Sequence[Card], *, more: bool) -> str:
    fields = [(c.uuid, c.count, c.memory, c.cores, c.model, c.numa, str(c.healthy).lower()) for c in cards]
    ends = [f",{c.index},{c.mode}" if more else "" for c in cards]
    return "".join(",".join(map(str, each)) + end + ":" for each, end in zip(fields, ends, strict=True))


NVIDIA_2_4 = replace(NVIDIA, annotations=lambda cards: {REGISTER: _colons(cards, more=False)})
NVIDIA_2_5 = replace(NVIDIA, annotations=lambda cards: {REGISTER: _colons(cards, more=True)})
"""Plugins of 2.4, and of 2.5 to 2.7; from 2.8 on they write JSON."""


def gpu(memory: int = 2000, cores: int = 10, count: int = 1) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count), "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": str(cores)}


def hami_pod(name: str, *apps: Limits, init: Sequence[Limits] = (), scheduler: str = HAMI, node: str = "") -> Obj:
    """A pod as HAMi's webhook leaves it; each container is told by its limits."""
    spec: Obj = {
        "schedulerName": scheduler,
        "initContainers": [_container(f"i{number}", limits) for number, limits in enumerate(init)],
        "containers": [_container(f"c{number}", limits) for number, limits in enumerate(apps or (gpu(),))],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"metadata": {"name": name}, "spec": spec}


def _container(name: str, limits: Limits) -> Obj:
    return {"name": name, "image": "example", "resources": {"limits": dict(limits)} if limits else {}}


def _headers(cluster: Cluster) -> dict[str, str]:
    """One of those who may write allocations."""
    return {"Authorization": f"Bearer {cluster.plane.tokens[PLUGIN]}"}


async def decided(
    cluster: Cluster, pod: Obj, node: str, value: str, left: str = "", vendor: Vendor = NVIDIA, **more: str
) -> None:
    """Write what HAMi's Filter writes: annotations and the label, before anything is bound; plugins change ``left``."""
    written = {NODE: node, "hami.io/vgpu-time": TIME, vendor.allocated: value, vendor.to_allocate: left or value}
    pod["metadata"] |= {"annotations": {**written, **more}, "labels": {NODE: node}}
    path = "/api/v1/namespaces/default/pods"
    async with cluster.http.post(path, json=pod, headers=_headers(cluster)) as answer:
        assert answer.status == 201, await answer.text()


async def withdraw(cluster: Cluster, name: str, vendor: Vendor = NVIDIA) -> None:
    """Take back what was decided on a pod that is not bound, as HAMi does when it gives up."""
    headers = {**_headers(cluster), "Content-Type": "application/merge-patch+json"}
    body = {"metadata": {"annotations": dict.fromkeys((NODE, vendor.allocated, vendor.to_allocate))}}
    async with cluster.http.patch(f"/api/v1/namespaces/default/pods/{name}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def bound(cluster: Cluster, name: str, node: str, phase: str = "") -> None:
    """Bind a pod as HAMi does, and let it run where a phase is given; one that is pending runs its init containers."""
    path = f"/api/v1/namespaces/default/pods/{name}"
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    async with cluster.http.post(f"{path}/binding", json=target, headers=_headers(cluster)) as answer:
        assert answer.status == 201, await answer.text()
    if not phase:
        return
    spec = (await cluster.pod(name))["spec"]
    runs = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    waits = {"waiting": {"reason": "PodInitializing"}}
    going = phase == "Running"
    status = {
        "phase": phase,
        "initContainerStatuses": [_status(c, ended if going else runs) for c in spec.get("initContainers", ())],
        "containerStatuses": [_status(c, runs if going else waits) for c in spec["containers"]],
    }
    headers = {"Content-Type": "application/merge-patch+json"}
    async with cluster.http.patch(f"{path}/status", json={"status": status}, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


def _status(container: Obj, state: Obj) -> Obj:
    ready = "running" in state
    return {"name": container["name"], "image": "example", "imageID": "", "ready": ready, "restartCount": 0,
            "state": state}  # fmt: skip


async def annotate(cluster: Cluster, node: str, annotations: dict[str, str]) -> None:
    """Write annotations of a node."""
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"metadata": {"annotations": annotations}}
    async with cluster.http.patch(f"/api/v1/nodes/{node}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
