"""Two replicas: the leader dies in the middle of a burst, and the standby goes on."""

from __future__ import annotations

import asyncio

from tests.e2e.conftest import Cluster, allocations, slice_pod

from vgpu_scheduler.cli.demo.process import OperatorProcess

PODS = 60
LEASE = "/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases/vgpu-scheduler"


async def leads(operator: OperatorProcess) -> bool:
    return await operator.metric("vgpu_scheduler_leader") == 1.0


async def ready(operator: OperatorProcess) -> bool:
    return (await operator.get("/readyz"))[0] == 200


async def transitions(cluster: Cluster) -> int:
    """Return how often the Lease has changed hands."""
    async with cluster.http.get(LEASE) as answer:
        return int((await answer.json())["spec"]["leaseTransitions"])


async def leader_first(cluster: Cluster, replicas: list[OperatorProcess]) -> list[OperatorProcess]:
    """Wait until one of two replicas leads, and return that one first."""
    leading: list[bool] = []

    async def one_leads() -> bool:
        leading[:] = await asyncio.gather(*map(leads, replicas))
        return sum(leading) == 1

    await cluster.until(one_leads, "one of them to lead")
    return replicas if leading[0] else replicas[::-1]


async def test_the_standby_takes_over_in_the_middle_of_a_burst(cluster: Cluster) -> None:
    await cluster.nodes.register([f"node-{n}" for n in range(4)], ("T4",) * 8)
    await cluster.nodes.start()
    replicas = [cluster.operator(log=f"replica-{n}.log") for n in range(2)]
    try:
        for replica in replicas:
            replica.start()
        for replica in replicas:
            await cluster.until(lambda replica=replica: ready(replica), "both replicas to be ready")
        leader, standby = await leader_first(cluster, replicas)
        led = await transitions(cluster)
        await cluster.create(*(slice_pod(f"pod-{n}", gpu=1, gpumem=2048, gpucores=10) for n in range(PODS)))
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= PODS // 6, within=60)
        leader.kill()
        before = sum(bool(pod["spec"].get("nodeName")) for pod in await cluster.pods())
        assert before < PODS
        await cluster.until(lambda: leads(standby), "the standby to lead")
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= PODS, within=90)
        pods = await cluster.pods()
        assert all(pod["spec"].get("nodeName") for pod in pods)
        assert not cluster.nodes.violations
        expected = allocations(pods)

        async def settled() -> bool:
            return bool((await standby.ledger())["ledger"] == expected)

        await cluster.until(settled, "the ledger to settle")
        assert not (await standby.ledger())["drift"]
        assert await standby.metric("vgpu_scheduler_over_capacity_nodes") == 0
        assert await transitions(cluster) == led + 1
        assert standby.exit_code is None
    finally:
        for replica in replicas:
            replica.stop()
