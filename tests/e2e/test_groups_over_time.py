"""What time does to groups and large pods, on a real API server: which are stale, and for whom room is kept."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import OPERATOR, Cluster
from tests.e2e.preempting import apply, components, preempting, with_priority
from tests.engine.builders import in_group

from vgpu_devcluster.process import OperatorProcess

Obj = dict[str, Any]
__all__ = ["components", "preempting"]

WHOLE = 15000
"""MiB that leave no room on a card beside them."""


def policy(**groups: object) -> Obj:
    """Return a cluster policy that says something of groups."""
    return {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "groups"},
        "spec": {"groups": groups},
    }


def member(name: str) -> Obj:
    """Return a pod of a group of two that needs a card for itself."""
    pod = with_priority(name, "low", gpu=1, gpumem=WHOLE)
    pod["metadata"]["annotations"] = in_group("team", 2)
    return pod


async def running(cluster: Cluster, number: int) -> None:
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= number)


async def delete(cluster: Cluster, name: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"
    async with cluster.http.delete(path) as answer:
        assert answer.status == 200, await answer.text()


async def test_a_group_that_has_lost_a_pod_is_evicted_where_its_policy_says_so(
    cluster: Cluster, preempting: OperatorProcess
) -> None:
    await cluster.nodes.register(["node"], ("T4",) * 2)
    await cluster.nodes.start()
    apply(cluster, policy(staleAfter="3s", whenStale="Evict"))
    await cluster.create(member("team-0"), member("team-1"))
    await running(cluster, 2)
    await delete(cluster, "team-1")
    await cluster.create(with_priority("other", "low", gpu=1, gpumem=WHOLE))
    await cluster.until(lambda: cluster.bound("other"), "who takes the card that has become free")
    mark = cluster.plane.audit_mark()
    await cluster.create(member("team-2"))

    async def told() -> bool:
        return any(reason == "PodGroupStale" for reason, _ in await cluster.events("team-0"))

    await cluster.until(told, "the event that says that the group is stale", within=30)

    async def is_evicted() -> bool:
        return {pod["metadata"]["name"] for pod in await cluster.pods()} == {"other", "team-2"}

    await cluster.until(is_evicted, "the rest of the group to be evicted", within=30)
    evicted = [
        record.name
        for record in cluster.plane.audit(since=mark)
        if record.user == OPERATOR and record.subresource == "eviction" and record.code < 300
    ]
    assert evicted == ["team-0"]
    await cluster.create(member("team-3"))
    await delete(cluster, "other")
    await cluster.until(lambda: cluster.bound("team-3"), "the group to run as a whole again", within=30)
    assert await cluster.bound("team-2")
    books = await preempting.ledger()
    assert not books["drift"]


async def test_what_small_pods_leave_is_kept_for_who_has_waited(
    cluster: Cluster, components: None, operator: OperatorProcess
) -> None:
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    apply(cluster, policy(holdAfter="1s"))
    small = [with_priority(f"small-{number}", "low", gpu=1, gpumem=WHOLE // 3) for number in range(4)]
    await cluster.create(*small[:3])
    await running(cluster, 3)
    await cluster.create(with_priority("large", "low", gpu=1, gpumem=WHOLE))

    async def is_kept() -> bool:
        kept = "room on node node is kept for it, which is enough once 3 pods there have ended."
        return (await cluster.message("large")).endswith(kept)

    await cluster.until(is_kept, "room to be kept", within=30)
    await cluster.create(small[3])
    for name in ("small-0", "small-1", "small-2"):
        await cluster.until(lambda: cluster.message("small-3"), "the last small pod to wait")
        await delete(cluster, name)
    await cluster.until(lambda: cluster.bound("large"), "the pod that has waited", within=30)
    assert not await cluster.bound("small-3")
    books = await operator.ledger()
    assert not books["drift"]
