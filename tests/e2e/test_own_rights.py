"""What the scheduler's own account may do is narrowed by admission, and what is the scheduler's alone is guarded."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.e2e.conftest import MANIFESTS, OLDER, OPERATOR, TENANT, Cluster

Obj = dict[str, Any]
METADATA = "changes no metadata of pods but the label" if OLDER else "does not change the metadata of pods"
PODS = "/api/v1/namespaces/default/pods"


async def as_the_scheduler(cluster: Cluster, patch: Obj) -> tuple[int, str]:
    """Try to patch the status of the pod ``p`` under the scheduler's account; return the answer's code and text."""
    headers = {
        "Authorization": f"Bearer {cluster.plane.tokens[OPERATOR]}",
        "Content-Type": "application/strategic-merge-patch+json",
    }
    path, dry = f"{PODS}/p/status", {"dryRun": "All"}  # a policy that is not in force yet must not let anything change
    async with cluster.http.patch(path, json=patch, headers=headers, params=dry) as answer:
        return answer.status, await answer.text()


@pytest.fixture
async def bare(cluster: Cluster) -> Cluster:
    await cluster.create({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "example"}]}})
    return cluster


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({"status": {"phase": "Failed"}}, "nothing of a pod's status but the condition PodScheduled"),
        ({"status": {"nominatedNodeName": "n"}}, "nothing of a pod's status but the condition PodScheduled"),
        ({"status": {"podIPs": [{"ip": "10.0.0.1"}]}}, "nothing of a pod's status but the condition PodScheduled"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "no condition but PodScheduled"),
        ({"metadata": {"labels": {"a": "b"}}}, METADATA),
        ({"metadata": {"annotations": {"a": "b"}}}, METADATA),
    ],
    ids=["phase", "nomination", "addresses", "another condition", "a label", "an annotation"],
)
async def test_of_a_pods_status_the_scheduler_writes_one_condition(bare: Cluster, patch: Obj, reason: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}

    async def refused() -> bool:
        return (await as_the_scheduler(bare, patch))[0] == 422

    await bare.until(refused, "the policy to be in force")
    code, text = await as_the_scheduler(bare, patch)
    assert (code, reason in text) == (422, True), text
    code, text = await as_the_scheduler(bare, {"status": {"conditions": [condition]}})
    assert code == 200, text


async def test_tenants_have_no_use_of_the_schedulers_priority(cluster: Cluster) -> None:
    pod = {
        "metadata": {"generateName": "p-"},
        "spec": {"priorityClassName": "vgpu-scheduler", "containers": [{"name": "main", "image": "example"}]},
    }
    headers = {"Authorization": f"Bearer {cluster.plane.tokens[TENANT]}"}

    async def answered(path: str, headers: dict[str, str], body: Obj = pod) -> int:
        async with cluster.http.post(path, json=body, params={"dryRun": "All"}, headers=headers) as answer:
            return answer.status

    async def refused() -> bool:
        return await answered(PODS, headers) == 403

    await cluster.until(refused, "the policy to be in force")
    template = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())["spec"]["template"]
    installed = {**template, "metadata": {"generateName": "vgpu-scheduler-", **template["metadata"]}}
    assert await answered("/api/v1/namespaces/vgpu-system/pods", {}, installed) == 201
    assert await answered(PODS, {}) == 403, "not even an administrator's by mistake"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1/nodes?limit=1", "vgpu-scheduler"),
        ("/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases/vgpu-scheduler", "vgpu-scheduler-leases"),
    ],
)
async def test_a_busy_api_server_does_not_make_the_scheduler_wait_with_all_others(
    cluster: Cluster, path: str, name: str
) -> None:
    async with cluster.http.get(f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}") as answer:
        uid = (await answer.json())["metadata"]["uid"]
    headers = {"Authorization": f"Bearer {cluster.plane.tokens[OPERATOR]}"}

    async def is_ours() -> bool:
        async with cluster.http.get(path, headers=headers) as answer:
            return answer.headers.get("X-Kubernetes-PF-FlowSchema-UID") == uid

    await cluster.until(is_ours, "the flow schema to be in force")
