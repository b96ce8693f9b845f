"""Two replicas: the leader dies, is frozen or is replaced in the middle of a burst, and another one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from tests.e2e.conftest import OPERATOR, Cluster, allocations, slice_pod

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.settings.sections import LeaseSettings

pytestmark = [pytest.mark.long, pytest.mark.alone]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/vgpu-system/leases/vgpu-scheduler"
DEFAULTS = LeaseSettings()
AS_INSTALLED = {
    "VGPU_LEASE__DURATION": str(DEFAULTS.duration),
    "VGPU_LEASE__RENEW_INTERVAL": str(DEFAULTS.renew_interval),
}


async def leads(operator: OperatorProcess) -> bool:
    return await operator.metric("vgpu_scheduler_leader") == 1.0


async def ready(operator: OperatorProcess) -> bool:
    return (await operator.get("/readyz"))[0] == 200


async def transitions(cluster: Cluster) -> int:
    """Return how often the Lease has changed hands."""
    async with cluster.http.get(LEASE) as answer:
        return int((await answer.json())["spec"]["leaseTransitions"])


class Burst:
    """Pods that come all at once, and two replicas that are there for them.

    Attributes
    ----------
    leader, standby
        The replicas, as they were when the pods came.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._all: list[OperatorProcess] = []
        self._number = 0
        self._mark = 0
        self._led = 0
        self.leader, self.standby = (self.replica() for _ in range(2))

    def replica(self) -> OperatorProcess:
        """Return one more replica; not started yet."""
        made = self._cluster.operator(log=f"replica-{len(self._all)}.log", **AS_INSTALLED)
        self._all.append(made)
        return made

    async def until_ready(self, *replicas: OperatorProcess) -> None:
        """Start replicas and wait until they are ready."""
        for replica in replicas:
            replica.start()
        for replica in replicas:
            await self._cluster.until(lambda replica=replica: ready(replica), "the replica to be ready", within=120)

    async def come(self, number: int) -> None:
        """Have so many pods come, and wait until a sixth of them is running."""
        await self.until_ready(self.leader, self.standby)
        leading: list[bool] = []

        async def one_leads() -> bool:
            leading[:] = await asyncio.gather(leads(self.leader), leads(self.standby))
            return sum(leading) == 1

        await self._cluster.until(one_leads, "one of them to lead")
        if leading[1]:
            self.leader, self.standby = self.standby, self.leader
        self._led, self._number = await transitions(self._cluster), number
        self._mark = self._cluster.plane.audit_mark()
        await self._cluster.create(*(slice_pod(f"pod-{n}", gpu=1, gpumem=1024, gpucores=5) for n in range(number)))
        nodes = self._cluster.nodes
        await nodes.until(lambda: nodes.counts["running"] >= number // 6, within=120)
        assert sum(bool(pod["spec"].get("nodeName")) for pod in await self._cluster.pods()) < number

    async def settle(self, leader: OperatorProcess) -> float:
        """Wait until all pods run, and check them against the books; return the longest time without a Binding.

        How long that may be at most is for a machine that does nothing else: see ``docs/performance.md``.
        """
        cluster, number = self._cluster, self._number
        await cluster.until(lambda: leads(leader), "the other one to lead")
        await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= number, within=180)
        pods = await cluster.pods()
        assert all(pod["spec"].get("nodeName") for pod in pods)
        assert not cluster.nodes.violations
        expected = allocations(pods)

        async def settled() -> bool:
            return bool((await leader.ledger())["ledger"] == expected)

        await cluster.until(settled, "the ledger to settle")
        assert not (await leader.ledger())["drift"]
        assert await leader.metric("vgpu_scheduler_over_capacity_nodes") == 0
        assert await transitions(cluster) == self._led + 1
        assert leader.exit_code is None
        bound = sorted(record.answered for record in self._bindings() if record.code == 201)
        # One that was carried out for a client that was killed before its answer has another code.
        assert number - 1 <= len(bound) <= number
        gap = max(later - earlier for earlier, later in pairwise(bound))
        print(f"{number} pods; longest time without a Binding: {gap:.2f} s; Bindings in conflict: {self.refused}")
        return gap

    def _bindings(self) -> list[Any]:
        records = self._cluster.plane.audit(since=self._mark)
        return [record for record in records if (record.user, record.subresource) == (OPERATOR, "binding")]

    @property
    def refused(self) -> int:
        """How many Bindings named a pod as it was before."""
        return sum(record.code == 409 for record in self._bindings())

    def end(self) -> None:
        """End all replicas."""
        for replica in self._all:
            replica.stop()


@pytest.fixture
async def burst(cluster: Cluster) -> AsyncIterator[Burst]:
    await cluster.nodes.register([f"node-{n:02d}" for n in range(20)], ("T4",) * 8)
    await cluster.nodes.start()
    made = Burst(cluster)
    try:
        yield made
    finally:
        made.end()


async def test_the_standby_takes_over_in_the_middle_of_a_burst(burst: Burst) -> None:
    await burst.come(1000)
    burst.leader.kill()
    await burst.settle(burst.standby)


async def test_a_leader_that_was_frozen_and_goes_on_changes_nothing(burst: Burst, cluster: Cluster) -> None:
    await burst.come(300)
    burst.leader.freeze()
    await cluster.until(lambda: leads(burst.standby), "the other one to lead")
    burst.leader.thaw()
    await burst.settle(burst.standby)
    await ended(cluster, burst.leader)


async def test_a_leader_that_ends_leaves_at_once(burst: Burst, cluster: Cluster) -> None:
    await burst.come(600)
    burst.leader.terminate()
    gap = await burst.settle(burst.standby)
    assert gap < DEFAULTS.duration, "nobody had to wait until the Lease expired"
    await ended(cluster, burst.leader)
    assert burst.leader.exit_code == 0


async def ended(cluster: Cluster, replica: OperatorProcess) -> None:
    """Wait until a replica has ended by itself."""

    async def over() -> bool:
        return replica.exit_code is not None

    await cluster.until(over, "the former leader to end")
