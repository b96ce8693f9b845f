"""Garbage in the locks of half of the nodes: the pods go to the others, and none of them waits."""

from __future__ import annotations

import asyncio

from tests.e2e.as_hami import annotate
from tests.e2e.conftest import Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess

NODES, PODS = 40, 100
GARBAGE = ("garbage", "", "2026-01-01T00:00:00Z,default,a,b", "{}")
LOCK = "hami.io/mutex.lock"
UNRESERVED = 60.0
"""Seconds after which a pod that waits for a lock is decided anew."""


async def test_nodes_with_garbage_in_their_locks_hold_nobody_up(cluster: Cluster, operator: OperatorProcess) -> None:
    names = [f"node-{number:02}" for number in range(NODES)]
    malformed = dict(zip(names[::2], GARBAGE * NODES, strict=False))
    await cluster.nodes.register(names, ("T4",) * 4)
    await asyncio.gather(*(annotate(cluster, name, {LOCK: value}) for name, value in malformed.items()))
    await cluster.nodes.start()

    async def closed() -> bool:
        known = await operator.metric("vgpu_scheduler_nodes")
        return (known, await operator.metric("vgpu_scheduler_closed_nodes")) == (NODES, len(malformed))

    async def all_bound() -> bool:
        return all(pod["spec"].get("nodeName") for pod in await cluster.pods())

    await cluster.until(closed, "the malformed locks to be seen")
    clock = asyncio.get_running_loop()
    began = clock.time()
    await cluster.create(*(slice_pod(f"slice-{number}", gpu=1, gpumem=3000) for number in range(PODS)))
    await cluster.until(all_bound, "every pod to be bound")
    took = clock.time() - began

    pods = await cluster.pods()
    assert len(pods) == PODS
    assert not malformed.keys() & {pod["spec"]["nodeName"] for pod in pods}
    assert await operator.metric("scheduler_pod_scheduling_attempts_sum") == PODS, "each was bound at its first attempt"
    assert took < UNRESERVED
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == PODS)
    assert not cluster.nodes.violations
    for name, value in malformed.items():  # whoever wrote it may take it away
        assert (await cluster.node(name))["metadata"]["annotations"][LOCK] == value
