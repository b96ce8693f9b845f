"""Policies on a real API server, from ``kubectl apply`` to the next decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.model import DECISION

GROUP = "vgpu-scheduler.io/v1alpha1"


def policy(name: str, spec: dict[str, Any], namespace: str = "") -> str:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = "VGPUPolicy" if namespace else "ClusterVGPUPolicy"
    return yaml.safe_dump({"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec})


def apply(cluster: Cluster, text: str) -> None:
    cluster.plane.kubectl("apply", "-f", "-", stdin=text)


@pytest.fixture
def no_policies(cluster: Cluster) -> Iterator[None]:
    """No policy before and after the test."""
    for kind in ("clustervgpupolicies", "vgpupolicies"):
        cluster.plane.kubectl("delete", kind, "--all", "-n", "default")
    yield
    for kind in ("clustervgpupolicies", "vgpupolicies"):
        cluster.plane.kubectl("delete", kind, "--all", "-n", "default", check=False)


@pytest.fixture
async def fleet(cluster: Cluster, no_policies: None, operator: OperatorProcess) -> Cluster:
    """Two nodes: ``full-0`` has a tenant on one of its cards, ``idle-0`` has none."""
    await cluster.nodes.register(["full-0", "idle-0"], ("T4", "T4"))
    await cluster.nodes.start()
    await cluster.create({**slice_pod("tenant"), "metadata": {"name": "tenant"}})
    await cluster.until(lambda: cluster.bound("tenant"), "the tenant to be bound")
    return cluster


async def ready(cluster: Cluster, name: str, namespace: str = "") -> dict[str, Any]:
    """Wait until the operator has looked at this version of a policy; return its conditions' status."""
    path = f"/apis/{GROUP}/" + (f"namespaces/{namespace}/vgpupolicies" if namespace else "clustervgpupolicies")
    found: dict[str, Any] = {}

    async def seen() -> bool:
        async with cluster.http.get(f"{path}/{name}") as answer:
            body = await answer.json()
        status = body.get("status") or {}
        found.update({condition["type"]: condition["status"] for condition in status.get("conditions", [])})
        return bool(status.get("observedGeneration") == body["metadata"]["generation"])

    await cluster.until(seen, f"the status of policy {name}")
    return found


async def placed(cluster: Cluster, name: str, **asks: int) -> tuple[str, dict[str, str]]:
    """Place a pod; return its node and where its policy came from."""
    await cluster.create(slice_pod(name, **asks))
    await cluster.until(lambda: cluster.bound(name), f"{name} to be bound")
    record = json.loads((await cluster.pod(name))["metadata"]["annotations"][DECISION])
    return await cluster.bound(name), record["policy"]


async def test_policies_change_the_next_decisions(fleet: Cluster) -> None:
    taken = await fleet.bound("tenant")
    idle = ({"full-0", "idle-0"} - {taken}).pop()
    node, sources = await placed(fleet, "packed")
    assert (node, sources["nodes"]) == (taken, "settings")

    apply(fleet, policy("house", {"nodes": {"policy": "spread"}}))
    assert (await ready(fleet, "house"))["Ready"] == "True"
    node, sources = await placed(fleet, "spread")
    assert (node, sources["nodes"]) == (idle, "ClusterVGPUPolicy house")

    apply(fleet, policy("house", {"nodes": {"policy": "binpack"}}))
    await ready(fleet, "house")
    node, sources = await placed(fleet, "packed-again")
    assert (node, sources["nodes"]) == (taken, "ClusterVGPUPolicy house")

    apply(fleet, policy("mine", {"nodes": {"scorers": [{"name": "hami", "policy": "spread"}]}}, "default"))
    await ready(fleet, "mine", "default")
    node, sources = await placed(fleet, "shadowed")
    assert (node, sources["nodes"]) == (idle, "VGPUPolicy default/mine")

    fleet.plane.kubectl("delete", "vgpupolicy", "mine", "-n", "default")
    fleet.plane.kubectl("delete", "clustervgpupolicy", "house")

    async def forgotten() -> bool:
        name = f"probe-{len(await fleet.pods())}"
        _, found = await placed(fleet, name, gpu=1, gpumem=64)
        return found["nodes"] == "settings"

    await fleet.until(forgotten, "the policies to be forgotten")


async def test_a_tenant_cannot_lift_what_the_cluster_limits(fleet: Cluster) -> None:
    apply(fleet, policy("limits", {"limits": {"devicesPerPod": 1, "memoryPerPod": "6Gi"}}))
    apply(fleet, policy("mine", {"priority": 1000, "limits": {"devicesPerPod": 8, "memoryPerPod": "60Gi"}}, "default"))
    await ready(fleet, "limits")
    await ready(fleet, "mine", "default")
    await fleet.create(slice_pod("two", gpu=2, gpumem=1024))
    await fleet.create(slice_pod("large", gpu=1, gpumem=8192))
    await fleet.until(lambda: fleet.message("two"), "a condition on the pod")
    await fleet.until(lambda: fleet.message("large"), "a condition on the pod")
    assert "limits.devicesPerPod of ClusterVGPUPolicy limits allows 1" in await fleet.message("two")
    assert "limits.memoryPerPod of ClusterVGPUPolicy limits allows 6Gi" in await fleet.message("large")
    fleet.plane.kubectl("delete", "clustervgpupolicy", "limits")
    await fleet.until(lambda: fleet.bound("two"), "the end of the limit to let the pod go")
    await fleet.until(lambda: fleet.bound("large"), "the end of the limit to let the pod go")


async def test_the_status_says_what_became_of_a_policy(fleet: Cluster) -> None:
    spec = {"nodes": {"policy": "spread"}, "devices": {"types": {"deny": ["H900"]}}}
    apply(fleet, policy("one", spec))
    apply(fleet, policy("two", {"nodes": {"policy": "binpack"}}))

    async def told() -> bool:
        conditions = await ready(fleet, "one")
        return conditions == {"Ready": "True", "Conflicted": "True", "Warnings": "True"}

    await fleet.until(told, "the conflict to be told")
    table = fleet.plane.kubectl("get", "clustervgpupolicies").stdout.splitlines()
    assert table[0].split() == ["NAME", "READY", "PRIORITY", "NODES", "DEVICES", "PODS", "AGE"]
    columns = dict(zip(table[0].split(), table[1].split(), strict=False))
    assert (columns["NAME"], columns["READY"], columns["NODES"]) == ("one", "True", "spread")


async def test_without_the_definitions_pods_are_placed(fleet: Cluster, operator: OperatorProcess) -> None:
    definitions = fleet.plane.kubectl("get", "crd", "-o", "yaml").stdout
    apply(fleet, policy("house", {"nodes": {"policy": "spread"}}))
    await ready(fleet, "house")
    try:
        fleet.plane.kubectl("delete", "crd", "clustervgpupolicies.vgpu-scheduler.io", "vgpupolicies.vgpu-scheduler.io")

        async def forgotten() -> bool:
            _, found = await placed(fleet, f"probe-{len(await fleet.pods())}", gpu=1, gpumem=64)
            return found["nodes"] == "settings"

        await fleet.until(forgotten, "the policies to be forgotten")
        assert operator.exit_code is None
    finally:
        kept = [item for item in yaml.safe_load(definitions)["items"] if item["spec"]["group"].startswith("vgpu")]
        for item in kept:
            for key in ("resourceVersion", "uid", "creationTimestamp", "generation"):
                item["metadata"].pop(key, None)
            item.pop("status", None)
        apply(fleet, yaml.safe_dump_all(kept))
        fleet.plane.kubectl("wait", "--for=condition=Established", "crd", *(k["metadata"]["name"] for k in kept))
    apply(fleet, policy("house", {"nodes": {"policy": "spread"}}))
    await ready(fleet, "house")
