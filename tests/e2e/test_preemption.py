"""A pod of high priority gets the room of others, on a real API server with its evictions and disruption budgets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from tests.e2e.conftest import OLDER, OPERATOR, Cluster
from tests.e2e.preempting import apply, budget, components, preempting, preemption_policy, with_priority
from tests.engine.builders import in_group

from vgpu_devcluster.process import OperatorProcess

__all__ = ["components", "preempting"]


@pytest.fixture
def disruption_controller(cluster: Cluster) -> Iterator[None]:
    """What counts how many pods a budget allows to be disrupted."""
    with cluster.plane.controllers("disruption-controller"):
        yield


async def counted(cluster: Cluster, name: str, pods: int, *, allowed: int) -> bool:
    """Tell whether a budget has been counted."""
    found = cluster.plane.kubectl("get", "pdb", name, "-n", "default", "-o", "json").stdout
    status = json.loads(found).get("status", {})
    return status.get("expectedPods") == pods and status.get("disruptionsAllowed") == allowed


async def says(cluster: Cluster, name: str, message: str) -> bool:
    """Tell whether the condition of a pod says something."""
    return await cluster.message(name) == message


async def test_a_pod_of_high_priority_is_bound_where_one_of_low_priority_was_evicted(
    cluster: Cluster, preempting: OperatorProcess
) -> None:
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    apply(cluster, preemption_policy())
    await cluster.create(with_priority("low", "low", gpu=1, gpumem=12000))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 1)
    mark = cluster.plane.audit_mark()
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=12000))
    await cluster.until(lambda: cluster.bound("high"), "the pod of high priority")
    assert await cluster.bound("high") == "node"
    names = [pod["metadata"]["name"] for pod in await cluster.pods()]
    assert names == ["high"]

    wrote = [
        (record.verb, record.resource, record.subresource, record.name)
        for record in cluster.plane.audit(since=mark)
        if record.user == OPERATOR and record.code < 300 and record.verb in {"create", "patch", "delete"}
        if record.resource == "pods"
    ]
    assert wrote == [
        ("patch", "pods", "status", "high"),
        ("create", "pods", "eviction", "low"),
        *([("patch", "pods", "status", "high")] if OLDER else []),  # the label: a Binding cannot carry it there
        ("create", "pods", "binding", "high"),
    ]

    async def told() -> bool:
        return ("Preempted", "Preempted by pod default/high on node node") in await cluster.events("low")

    await cluster.until(told, "the event of the victim")
    books = await preempting.ledger()
    assert not books["drift"]


async def test_without_a_policy_nobody_is_evicted(cluster: Cluster, preempting: OperatorProcess) -> None:
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(with_priority("low", "low", gpu=1, gpumem=12000))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 1)
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=12000))
    await cluster.until(lambda: cluster.message("high"), "a condition")
    assert await cluster.message("high") == "0/1 nodes are available: 1 CardInsufficientMemory."
    assert (await cluster.pod("low"))["metadata"].get("deletionTimestamp") is None


async def crowd(cluster: Cluster, *names: str) -> None:
    """Have a card of 15,360 MiB shared by pods of low priority, in equal parts."""
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(*(with_priority(name, "low", gpu=1, gpumem=15000 // len(names)) for name in names))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= len(names))


async def left(cluster: Cluster) -> set[str]:
    """Return the names of the pods that are there and are not ending."""
    return {pod["metadata"]["name"] for pod in await cluster.pods() if "deletionTimestamp" not in pod["metadata"]}


async def test_budgets_are_respected_until_they_allow_it(
    cluster: Cluster, preempting: OperatorProcess, disruption_controller: None
) -> None:
    apply(cluster, preemption_policy(), budget("db", minAvailable=1))
    await crowd(cluster, "db-1")
    await cluster.until(lambda: counted(cluster, "db", 1, allowed=0), "the budget to be counted")
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=12000))
    protected = "0/1 nodes are available: 1 CardInsufficientMemory. preemption: "
    protected += "0/1 nodes are available: 1 PodDisruptionBudgets protect the victims."
    await cluster.until(lambda: says(cluster, "high", protected), "a condition that names the budgets")
    assert await left(cluster) == {"db-1", "high"}
    apply(cluster, budget("db", minAvailable=0))
    await cluster.until(lambda: cluster.bound("high"), "the pod of high priority")


async def test_budgets_are_exceeded_where_a_policy_says_so(
    cluster: Cluster, preempting: OperatorProcess, disruption_controller: None
) -> None:
    apply(cluster, preemption_policy(budgets="Exceed"), budget("db", minAvailable=1))
    await crowd(cluster, "db-1")
    await cluster.until(lambda: counted(cluster, "db", 1, allowed=0), "the budget to be counted")
    mark = cluster.plane.audit_mark()
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=12000))
    await cluster.until(lambda: cluster.bound("high"), "the pod of high priority")
    deleted = [r for r in cluster.plane.audit(since=mark) if r.user == OPERATOR and r.verb == "delete" and r.code < 300]
    assert [(r.resource, r.name) for r in deleted] == [("pods", "db-1")]


async def test_a_pod_that_two_budgets_select_is_no_victim(cluster: Cluster, preempting: OperatorProcess) -> None:
    for name in ("one", "two"):
        both = budget("db", minAvailable=0)
        both["metadata"]["name"] = name
        apply(cluster, both)
        as_counted = {"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 1, "currentHealthy": 1}
        patch = json.dumps({"status": {**as_counted, "desiredHealthy": 0}})
        cluster.plane.kubectl(
            "patch", "pdb", name, "-n", "default", "--subresource=status", "--type=merge", "-p", patch
        )
    apply(cluster, preemption_policy())
    await crowd(cluster, "db-1", "web-1")
    cluster.plane.kubectl("delete", "pod", "web-1", "--wait=false")
    await cluster.create(with_priority("web-2", "low", gpu=1, gpumem=7500))
    await cluster.until(lambda: cluster.bound("web-2"), "the younger pod")  # of equals the younger one ends: not this
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=7500))
    await cluster.until(lambda: cluster.bound("high"), "the pod of high priority")
    assert await left(cluster) == {"db-1", "high"}


async def test_no_more_are_evicted_than_a_policy_allows_whoever_leads(
    cluster: Cluster, preempting: OperatorProcess
) -> None:
    apply(cluster, preemption_policy(perHour=1))
    await crowd(cluster, "low-1", "low-2")
    await cluster.create(with_priority("high-1", "high", gpu=1, gpumem=7500))
    await cluster.until(lambda: cluster.bound("high-1"), "the pod of high priority")
    (evicted,) = {"low-1", "low-2"} - await left(cluster)
    preempting.kill()
    preempting.start()
    await preempting.until_leading()
    await cluster.create(with_priority("high-2", "high", gpu=1, gpumem=7500))
    limited = "0/1 nodes are available: 1 CardInsufficientMemory. preemption: "
    limited += "ClusterVGPUPolicy preempts allows 0 more evictions within the hour, and 1 is needed."
    await cluster.until(lambda: says(cluster, "high-2", limited), "a condition that names the limit")
    assert len(await left(cluster)) == 3
    policy = cluster.plane.kubectl("get", "clustervgpupolicies", "preempts", "-o", "json").stdout
    assert [one["pod"] for one in json.loads(policy)["status"]["evictions"]] == [f"default/{evicted}"]


@pytest.mark.parametrize("killed", [False, True], ids=["lives on", "is killed"])
async def test_what_victims_leave_is_kept_for_whom_they_left_though_the_leader(
    cluster: Cluster, preempting: OperatorProcess, *, killed: bool
) -> None:
    chosen = preemption_policy()
    chosen["spec"]["selector"] = {"matchLabels": {"app": "high"}}
    apply(cluster, chosen)
    await cluster.nodes.register(["node"], ("T4",))
    await cluster.nodes.start()
    victims = [with_priority(name, "low", gpu=1, gpumem=7000) for name in ("low-1", "low-2")]
    for victim in victims:
        victim["metadata"]["finalizers"] = ["example.com/stays"]
    await cluster.create(*victims)
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 2)
    await cluster.create(with_priority("rival", "high", gpu=1, gpumem=6000))  # older, and may not preempt
    await cluster.until(lambda: cluster.message("rival"), "the rival to be decided")
    await cluster.create(with_priority("high", "high", gpu=1, gpumem=15000))

    async def are_ending() -> bool:
        return await left(cluster) == {"rival", "high"}

    await cluster.until(are_ending, "the victims to end")
    assert (await cluster.pod("high"))["status"]["nominatedNodeName"] == "node"
    if killed:
        preempting.kill()
        preempting.start()
        await preempting.until_leading()

    async def is_kept() -> bool:
        (used,) = (await preempting.ledger())["ledger"]["node"].values()
        return bool(used[1] == 15000)

    def let_go(name: str) -> None:
        cluster.plane.kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')

    let_go("low-1")
    await cluster.until(is_kept, "the room to be kept")
    assert len(await cluster.pods()) == 3
    let_go("low-2")
    await cluster.until(lambda: cluster.bound("high"), "the pod of high priority")
    assert not await cluster.bound("rival")
    assert not (await preempting.ledger())["drift"]


async def test_a_group_gets_the_room_of_others_for_all_of_its_pods_or_for_none(
    cluster: Cluster, preempting: OperatorProcess
) -> None:
    apply(cluster, preemption_policy())
    await cluster.nodes.register(["one", "two"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(*(with_priority(f"low-{number}", "low", gpu=1, gpumem=12000) for number in range(2)))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] >= 2)
    mark = cluster.plane.audit_mark()
    names = [f"gang-{number}" for number in range(3)]
    for name in names:
        pod = with_priority(name, "high", gpu=1, gpumem=12000)
        pod["metadata"]["annotations"] = in_group("gang", 3)
        await cluster.create(pod)

    async def nobody_helps() -> bool:
        return "preemption: pod default/gang-2: 0/2 nodes are available" in await cluster.message("gang-0")

    await cluster.until(nobody_helps, "a condition that says that two nodes are not enough")
    assert len(await left(cluster)) == 5
    await cluster.nodes.register(["three"], ("T4",))
    for name in names:
        await cluster.until(partial(cluster.bound, name), "the pods of the group")
    assert await left(cluster) == set(names)
    wrote = [
        (record.verb, record.subresource, record.name)
        for record in cluster.plane.audit(since=mark)
        if record.user == OPERATOR and record.code < 300 and record.verb in {"create", "patch"}
        if record.resource == "pods" and record.subresource in {"eviction", "binding"}
    ]
    assert sorted(name for _, what, name in wrote[:2] if what == "eviction") == ["low-0", "low-1"]
    bindings = Counter(name for _, what, name in wrote[2:] if what == "binding")
    assert bindings == dict.fromkeys(names, 2), "a dry run and a Binding of each"
    assert not (await preempting.ledger())["drift"]
