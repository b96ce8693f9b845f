"""A plugin that takes its time keeps its lock."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Cluster, slice_pod

from vgpu_devcluster import BEHAVIOUR


@pytest.mark.long
@pytest.mark.alone
async def test_a_slow_plugin_keeps_its_lock(cluster: Cluster) -> None:
    """Two pods on one node: the second never takes the first one's lock."""
    await cluster.nodes.register(["only"], ("A100-80G",))
    await cluster.nodes.start()
    operator = cluster.operator(VGPU_BIND__POLL_INTERVAL="0.2")
    operator.start()
    try:
        await operator.until_leading()
        slow = [slice_pod(f"pod-{n}") for n in range(3)]
        for pod in slow:
            pod["metadata"]["annotations"] = {BEHAVIOUR: "slow=1.5"}
        await cluster.create(*slow)
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 3, within=60)
        assert not cluster.nodes.violations
        assert await operator.metric("vgpu_scheduler_node_locks_total", outcome="taken") == 3
        assert await operator.metric("vgpu_scheduler_node_locks_total", outcome="orphan_replaced") == 0
    finally:
        operator.stop()
