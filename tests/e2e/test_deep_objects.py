"""A pod that is nested deeper than decoders go stops nobody: the API server takes such pods from any tenant."""

from __future__ import annotations

import json

from tests.e2e.conftest import TENANT, Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess

DEPTH = 9000
"""The API server takes 10,000 levels."""
HOLE = '"the hole"'


async def planted(cluster: Cluster, name: str, depth: int = DEPTH) -> None:
    """Have a tenant create a pod of ours with managed fields of a depth."""
    pod = slice_pod(name, gpu=1, gpumem=1000)
    pod["metadata"]["managedFields"] = [
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "the hole"}
    ]
    body = json.dumps(pod).replace(HOLE, '{"f:a":' * depth + "{}" + "}" * depth)
    headers = {"Authorization": f"Bearer {cluster.plane.tokens[TENANT]}", "Content-Type": "application/json"}
    async with cluster.http.post("/api/v1/namespaces/default/pods", data=body, headers=headers) as answer:
        text = await answer.text()
        assert answer.status == 201, text
        assert text.count('"f:a"') >= depth, "the API server keeps them"


async def test_deep_pods_are_placed_and_stop_no_other(cluster: Cluster) -> None:
    await cluster.nodes.register(["node"], ("T4", "T4"))
    await cluster.nodes.start()
    await planted(cluster, "before")
    operator = cluster.operator()  # its first lists have the pod
    operator.start()
    try:
        await operator.until_leading()
        await planted(cluster, "after")
        await cluster.create(slice_pod("other", gpu=1, gpumem=1000))
        for name in ("before", "after", "other"):
            await cluster.until(lambda name=name: cluster.bound(name), f"{name} to be bound")  # type: ignore[misc]
        assert await operator.metric("vgpu_scheduler_kopf_restarts_total") == 0
    finally:
        operator.stop()


async def test_a_running_operator_goes_on(cluster: Cluster, operator: OperatorProcess) -> None:
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    for number in range(3):
        await planted(cluster, f"deep-{number}")
        await cluster.create(slice_pod(f"other-{number}", gpu=1, gpumem=1000))
    for name in ("deep-2", "other-2"):
        await cluster.until(lambda name=name: cluster.bound(name), f"{name} to be bound")  # type: ignore[misc]
