"""Storage for tests: classes, volumes and claims, and a provisioner that does what those of CSI drivers do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

import aiohttp
from tests.e2e.conftest import Administrator, Cluster

DRIVER = "disks.example.com"
ZONE = "topology.kubernetes.io/zone"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
CONTROLLERS = (
    "persistentvolume-binder-controller",
    "ephemeral-volume-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
)
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
MERGE = {"Content-Type": "application/merge-patch+json"}

Object = dict[str, Any]


def storage_class(name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer") -> Object:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}


def claim(name: str, class_name: str, size: str = "1Gi", modes: Iterable[str] = ("ReadWriteOnce",)) -> Object:
    resources = {"requests": {"storage": size}}
    return {
        "metadata": {"name": name},
        "spec": {"storageClassName": class_name, "accessModes": list(modes), "resources": resources},
    }


def local_volume(name: str, class_name: str, node: str, size: str = "1Gi") -> Object:
    """Return a volume that only one node reaches."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def mounting(pod: Object, *claims: str) -> Object:
    """Have a pod mount claims."""
    pod["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(claims)
    ]
    return pod


async def create(cluster: Administrator, path: str, *objects: dict[str, Any]) -> None:
    for obj in objects:
        async with cluster.http.post(path, json=obj) as answer:
            assert answer.status == 201, await answer.text()


async def get(cluster: Administrator, path: str) -> dict[str, Any]:
    async with cluster.http.get(path) as answer:
        return dict(await answer.json())


async def delete_all(cluster: Cluster) -> None:
    """Delete what the tests with volumes have made."""
    await (await cluster.http.delete(STATEFUL_SETS)).release()
    cluster.plane.clear()
    await delete_storage(cluster)


async def delete_storage(cluster: Administrator) -> None:
    """Delete the storage objects; finalizers have nobody who removes them once their owners are gone."""
    for path in (CLAIMS, VOLUMES):
        for item in (await get(cluster, path))["items"]:
            one = f"{path}/{item['metadata']['name']}"
            patch = {"metadata": {"finalizers": None}}
            await (await cluster.http.delete(one)).release()
            await (await cluster.http.patch(one, json=patch, headers=MERGE)).release()
    await (await cluster.http.delete(CLASSES)).release()


class Provisioner:
    """Makes a volume for each claim that names the node it is for, as an external provisioner does.

    Attributes
    ----------
    stalls
        It does nothing as long as this is set.
    fails_on
        Nodes on which it gives up: it takes the selected node from the claim, so that another one is selected.
    """

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self.stalls = False
        self.fails_on: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            async with self._http.get("/api/v1/persistentvolumeclaims") as answer:
                claims = (await answer.json())["items"]
            for found in claims if not self.stalls else ():
                annotations = found["metadata"].get("annotations", {})
                node = annotations.get(SELECTED_NODE)
                if node and annotations.get(PROVISIONER) == DRIVER and not found["spec"].get("volumeName"):
                    await self._provision(found, node)

    async def _provision(self, found: Object, node: str) -> None:
        meta = found["metadata"]
        if node in self.fails_on:
            path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
            patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            async with self._http.patch(path, json=patch, headers=MERGE):
                return
        async with self._http.get(f"/api/v1/nodes/{node}") as answer:
            labels = (await answer.json())["metadata"]["labels"]
        expression = {"key": ZONE, "operator": "In", "values": [labels[ZONE]]}
        volume = {
            "metadata": {
                "name": f"pvc-{meta['uid']}",
                "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
            },
            "spec": {
                "capacity": found["spec"]["resources"]["requests"],
                "accessModes": found["spec"]["accessModes"],
                "storageClassName": found["spec"]["storageClassName"],
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
                "csi": {"driver": DRIVER, "volumeHandle": f"disk-{meta['uid']}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
        }
        async with self._http.post("/api/v1/persistentvolumes", json=volume) as answer:
            assert answer.status in {201, 409}, await answer.text()
