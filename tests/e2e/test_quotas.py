"""Namespace quotas on a real API server: who waits, who is told, and what lets pods go."""

from __future__ import annotations

import yaml
from tests.e2e.conftest import Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess


def apply_quota(cluster: Cluster, name: str, memory: int) -> None:
    hard = {"limits.nvidia.com/gpumem": str(memory)}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}
    cluster.plane.kubectl("apply", "-n", "default", "-f", "-", stdin=yaml.safe_dump(body))


async def test_pods_wait_for_the_quota_of_their_namespace(cluster: Cluster) -> None:
    """The quota is there before the operator, which must not decide anything without it."""
    await cluster.nodes.register(["n-0"], ("T4", "T4"))
    await cluster.nodes.start()
    apply_quota(cluster, "team", 6000)
    apply_quota(cluster, "generous", 60000)
    await cluster.create(slice_pod("one"))
    operator: OperatorProcess = cluster.operator()
    operator.start()
    try:
        await cluster.until(lambda: cluster.bound("one"), "the first pod to be bound")
        await cluster.create(slice_pod("two"))
        await cluster.until(lambda: cluster.message("two"), "a condition on the second pod")
        assert await cluster.message("two") == "0/1 nodes are available: 1 ResourceQuotaNotFit."
        used = {"namespace": "default", "quota_name": "nvidia.com/gpumem", "zone": "vGPU"}
        assert await operator.metric("hami_resource_quota_used", **used) == 4096
        assert await operator.metric("hami_resource_quota_limit", **used) == 6000
        cluster.plane.kubectl("delete", "pod", "one", "-n", "default", "--grace-period=0", "--force")
        await cluster.until(lambda: cluster.bound("two"), "the end of the first pod to let the second one go")
        await cluster.create(slice_pod("three"))
        await cluster.until(lambda: cluster.message("three"), "a condition on the third pod")
        cluster.plane.kubectl("delete", "resourcequota", "team", "-n", "default")
        await cluster.until(lambda: cluster.bound("three"), "the end of the quota to let the third pod go")
        notes = [note for reason, note in await cluster.events("two") if reason == "FailedScheduling"]
        # Events outlive their pods: others of that name may have some from earlier tests.
        assert any("namespace default uses 4096 of 6000 MiB of limits.nvidia.com/gpumem" in note for note in notes)
    finally:
        operator.stop()
        cluster.plane.kubectl("delete", "resourcequota", "--all", "-n", "default", check=False)
