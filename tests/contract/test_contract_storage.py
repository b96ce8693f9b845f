"""Storage objects: stored and shown, with the patches that bind volumes and their preconditions."""

from __future__ import annotations

import pytest
from tests.contract.client import Api, Object

SELECTED = "volume.kubernetes.io/selected-node"


def claim(api: Api, **metadata: object) -> Object:
    return {
        "metadata": {"name": "data", **metadata},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"{api.namespace}-none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(api: Api) -> Object:
    return {
        "metadata": {"name": f"{api.namespace}-disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"{api.namespace}-none",
            "csi": {"driver": "disks.example.com", "volumeHandle": "h"},
        },
    }


async def test_a_claim_begins_pending_and_takes_a_selected_node(api: Api) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/persistentvolumeclaims"
    created = (await api.post(path, claim(api))).created()
    assert created["status"]["phase"] == "Pending"
    assert created["spec"]["volumeMode"] == "Filesystem"
    patch = {"metadata": {"uid": created["metadata"]["uid"], "annotations": {SELECTED: "n"}}}
    patched = await api.merge(f"{path}/data", patch)
    assert patched.body["metadata"]["annotations"][SELECTED] == "n"
    (listed,) = (await api.get(path)).body["items"]
    assert listed["metadata"]["name"] == "data"


@pytest.mark.parametrize(("stale", "code", "reason"), [("uid", 422, "Invalid"), ("resourceVersion", 409, "Conflict")])
async def test_a_patch_of_what_was_made_anew_or_changed_is_refused(
    api: Api, stale: str, code: int, reason: str
) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/persistentvolumeclaims"
    (await api.post(path, claim(api))).created()
    patch = {"metadata": {stale: "1", "annotations": {SELECTED: "n"}}}
    refused = await api.merge(f"{path}/data", patch)
    assert (refused.code, refused.body["reason"]) == (code, reason)


async def test_a_volume_is_kept_for_a_claim(api: Api) -> None:
    path = "/api/v1/persistentvolumes"
    created = (await api.post(path, volume(api))).created()
    name = created["metadata"]["name"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "n", "name": "c", "uid": "u"}
    patch = {
        "metadata": {key: created["metadata"][key] for key in ("uid", "resourceVersion")},
        "spec": {"claimRef": reference},
    }
    patched = await api.merge(f"{path}/{name}", patch)
    assert patched.body["spec"]["claimRef"] == reference
    again = await api.merge(f"{path}/{name}", patch)
    assert (again.code, again.body["reason"]) == (409, "Conflict")
    await api.delete(f"{path}/{name}")


async def test_classes_and_drivers_are_stored(api: Api) -> None:
    group = "/apis/storage.k8s.io/v1"
    body = {
        "metadata": {"name": f"{api.namespace}-class"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    created = (await api.post(f"{group}/storageclasses", body)).created()
    assert created["volumeBindingMode"] == "WaitForFirstConsumer"
    await api.delete(f"{group}/storageclasses/{api.namespace}-class")
    for plural in ("csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"):
        assert (await api.get(f"{group}/{plural}")).body["items"] == []
