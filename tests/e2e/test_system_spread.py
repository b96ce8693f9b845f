"""kube-scheduler's spread for pods that say nothing, on a real API server: a Service selects pods, and they spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import MANIFESTS, Cluster, slice_pod
from tests.e2e.test_neighbours import label_nodes, with_app

SERVICES = "/api/v1/namespaces/default/services"
RIGHTS = str(MANIFESTS / "system-spread" / "rbac.yaml")
PODS = 4


@pytest.fixture
def rights(cluster: Cluster) -> Iterator[None]:
    cluster.plane.kubectl("apply", "-f", RIGHTS)
    yield
    cluster.plane.kubectl("delete", "service", "web", "--ignore-not-found")
    cluster.plane.kubectl("delete", "-f", RIGHTS)


async def placed(cluster: Cluster, app: str) -> Counter[str]:
    """Create pods of an app, and return how many are on each node."""
    names = [f"{app}-{number}" for number in range(PODS)]
    for name in names:
        await cluster.create(with_app(slice_pod(name), app))
        await cluster.until(lambda name=name: cluster.bound(name), name)
    return Counter([await cluster.bound(name) for name in names])


async def test_pods_that_a_service_selects_are_spread_and_others_are_packed(cluster: Cluster, rights: None) -> None:
    await cluster.nodes.register(["one", "two"], ("A100-40G",) * 2)
    await label_nodes(cluster, "one", "two")
    await cluster.nodes.start()
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    async with cluster.http.post(SERVICES, json=service) as answer:
        assert answer.status == 201, await answer.text()
    process = cluster.operator(VGPU_SCORING__SYSTEM_SPREAD="true")
    process.start()
    try:
        await process.until_leading()
        assert await placed(cluster, "web") == Counter(one=PODS // 2, two=PODS // 2)
        assert sorted((await placed(cluster, "other")).values()) == [PODS]
    finally:
        process.stop()
