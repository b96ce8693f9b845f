"""A pod that waits for its claim on a volume, and what others do about that: for the tests of binding."""

from __future__ import annotations

from typing import Any

from tests.binding.bench import Bench
from tests.engine.builders import asks
from tests.kube import storage_objects as storage

from vgpu_scheduler.kube import SELECTED_NODE

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = {"content_type": "application/merge-patch+json"}

Object = dict[str, Any]


def new(obj: Object) -> Object:
    """Leave to the server what the server decides."""
    obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in {"uid", "resourceVersion", "namespace"}}
    return obj


async def wanting(made: Bench, name: str = "trains", unwatched: str = "", **more: Any) -> None:
    """Create a class, a claim ``c`` and a pod that mounts it; have the engine know."""
    for path, obj in ((CLASSES, storage.storage_class()), (CLAIMS, storage.claim())):
        answer = await made.call("POST", path, new(obj))
        assert answer.ok, answer.message
    await made.create(name, asks(1), volumes=[storage.claim_volume()], **more)
    await made.learn()
    made.watch(unwatched)


async def claim(made: Bench) -> Object:
    return dict((await made.call("GET", f"{CLAIMS}/c")).json())


async def selected(made: Bench) -> str:
    return str((await claim(made))["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


async def complete(made: Bench, volume: str = "made") -> None:
    """Bind the claim, as provisioner and volume controller do together."""
    found = await claim(made)
    body = storage.volume(volume, bound_to=found, csi=storage.csi(volume))
    del body["status"]
    if not (await made.call("GET", f"{VOLUMES}/{volume}")).ok:
        assert (await made.call("POST", VOLUMES, new(body))).ok
    done = {"metadata": {"annotations": {storage.BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
    assert (await made.call("PATCH", f"{CLAIMS}/c", done, **MERGE)).ok


async def bound(made: Bench) -> str:
    return str((await made.read("trains"))["spec"].get("nodeName", ""))


async def free_volume(made: Bench, name: str = "disk") -> None:
    """Create a volume that is free."""
    assert (await made.call("POST", VOLUMES, new(storage.volume(name, csi=storage.csi(name))))).ok
    available = {"status": {"phase": "Available"}}
    assert (await made.call("PATCH", f"{VOLUMES}/{name}/status", available, **MERGE)).ok


async def kept(made: Bench, name: str = "disk") -> Object:
    """Return what a volume is kept for."""
    return dict((await made.call("GET", f"{VOLUMES}/{name}")).json()["spec"].get("claimRef", {}))
