"""Pods that must not share a node, on a real API server: with pods of other schedulers and with their own kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.conftest import Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess

HOSTNAME = "kubernetes.io/hostname"


def apart(app: str) -> dict[str, Any]:
    """Return an affinity that keeps a pod off the nodes of pods of an app."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_app(pod: dict[str, Any], app: str, affinity: dict[str, Any] | None = None) -> dict[str, Any]:
    pod["metadata"]["labels"] = {"app": app}
    pod["spec"]["affinity"] = affinity or {}
    return pod


async def label_nodes(cluster: Cluster, *names: str) -> None:
    for name in names:
        patch = {"metadata": {"labels": {HOSTNAME: name}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with cluster.http.patch(f"/api/v1/nodes/{name}", json=patch, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


@asynccontextmanager
async def leading(cluster: Cluster) -> AsyncIterator[OperatorProcess]:
    """Run an operator that knows all that is in the cluster now."""
    process = cluster.operator()
    process.start()
    try:
        await process.until_leading()
        yield process
    finally:
        process.stop()


async def test_a_pod_stays_away_from_the_pods_that_keep_it_away(cluster: Cluster) -> None:
    await cluster.nodes.register(["one", "two"], ("A100-40G",))
    await label_nodes(cluster, "one", "two")
    await cluster.nodes.start()
    guard: dict[str, Any] = {
        "metadata": {"name": "guard"},
        "spec": {"nodeName": "one", "containers": [{"name": "main", "image": "example"}]},
    }
    await cluster.create(with_app(guard, "guard", apart("web")))
    assert (await cluster.pod("guard"))["spec"]["schedulerName"] == "default-scheduler"
    async with leading(cluster):
        await keeps_apart(cluster)


async def keeps_apart(cluster: Cluster) -> None:
    await cluster.create(with_app(slice_pod("first"), "web", apart("web")))
    await cluster.until(lambda: cluster.bound("first"), "the first pod")
    assert await cluster.bound("first") == "two", "the other node has a pod that keeps it away"

    await cluster.create(with_app(slice_pod("second"), "web", apart("web")))
    await cluster.until(lambda: cluster.message("second"), "a condition")
    assert await cluster.message("second") == (
        "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, "
        "1 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    async with cluster.http.delete("/api/v1/namespaces/default/pods/guard?gracePeriodSeconds=0") as answer:
        assert answer.status == 200, await answer.text()
    await cluster.until(lambda: cluster.bound("second"), "the second pod", within=30)
    assert await cluster.bound("second") == "one"
    assert not cluster.nodes.violations
