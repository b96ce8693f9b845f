"""What users see with kubectl of pods that wait, and of pods that their kubelet rejects."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from tests.e2e.conftest import OPERATOR, Cluster, slice_pod

from vgpu_devcluster.process import OperatorProcess

LARGE = {"gpu": 1, "gpumem": 12000}
FULL = "0/1 nodes are available: 1 CardInsufficientMemory."
CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
REJECTED = "node(s) rejected a pod like this one a moment ago"


async def condition(cluster: Cluster, name: str) -> dict[str, Any]:
    pod = await cluster.pod(name)
    [found] = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
    return dict(found)


async def says(cluster: Cluster, name: str, message: str) -> bool:
    return await cluster.message(name) == message


async def is_scheduled(cluster: Cluster, name: str) -> bool:
    return any(reason == "Scheduled" for reason, _ in await cluster.events(name))


async def patch(cluster: Cluster, path: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with cluster.http.patch(f"/api/v1/{path}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def test_a_pod_that_waits_says_why_as_kube_scheduler_would(cluster: Cluster, operator: OperatorProcess) -> None:
    await cluster.nodes.register(["small"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(slice_pod("first", **LARGE))
    await cluster.until(lambda: is_scheduled(cluster, "first"), "the first pod and its last event")
    mark = cluster.plane.audit_mark()
    await cluster.create(slice_pod("second", **LARGE))
    await cluster.until(lambda: says(cluster, "second", FULL), "a condition")
    before = await condition(cluster, "second")
    assert before["observedGeneration"] == (await cluster.pod("second"))["metadata"]["generation"] == 1

    # Its spec changes, which alone is nothing to say; then something is. A node that is cordoned wakes nobody, so the
    # pod changes until it was tried.
    toleration = {"key": "example", "operator": "Exists"}
    tolerations = (await cluster.pod("second"))["spec"].get("tolerations", [])
    await patch(cluster, "nodes/small", {"spec": {"unschedulable": True}})
    await patch(cluster, "namespaces/default/pods/second", {"spec": {"tolerations": [*tolerations, toleration]}})
    tries = count()

    async def says_so_when_tried() -> bool:
        annotations = {"example.com/try": str(next(tries))}
        await patch(cluster, "namespaces/default/pods/second", {"metadata": {"annotations": annotations}})
        return await says(cluster, "second", CORDONED)

    await cluster.until(says_so_when_tried, "another reason")
    after = await condition(cluster, "second")
    assert after["observedGeneration"] == (await cluster.pod("second"))["metadata"]["generation"] == 2
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert (after["status"], after["reason"]) == ("False", "Unschedulable")

    await patch(cluster, "nodes/small", {"spec": {"unschedulable": False}})
    await cluster.until(lambda: says(cluster, "second", FULL), "the first reason again")

    def described() -> str:
        return str(cluster.plane.kubectl("describe", "pod", "second").stdout)

    async def is_series() -> bool:
        return bool(re.search(rf"Warning +FailedScheduling +\w+ \(x2 over \w+\) +vgpu-scheduler +{FULL}", described()))

    await cluster.until(is_series, "the series")
    # Nothing deletes events, so that two lines are two that were created; their repetition was one write more.
    assert len(re.findall("FailedScheduling", described())) == 2
    records = [record for record in cluster.plane.audit(since=mark) if record.user == OPERATOR]
    assert [record.code for record in records if (record.verb, record.resource) == ("patch", "events")] == [200]


def owned(name: str) -> dict[str, Any]:
    """Return a pod of a ReplicaSet."""
    pod = slice_pod(name, **LARGE)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "0-1-2", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


async def test_a_pod_that_its_kubelet_rejects_is_replaced_elsewhere(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    await cluster.nodes.register(["a", "b"], ("T4",))
    await cluster.nodes.start()
    await cluster.create(owned("p"))
    await cluster.nodes.until(lambda: cluster.nodes.counts["running"] == 1)
    rejecting = await cluster.bound("p")
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource"}
    await patch(cluster, "namespaces/default/pods/p/status", {"status": status})

    async def is_counted() -> bool:
        return await operator.metric("vgpu_scheduler_rejected_by_kubelet_total", reason="OutOfcpu") == 1

    await cluster.until(is_counted, "the rejection to be counted")
    await cluster.create(owned("q"))
    await cluster.until(lambda: cluster.bound("q"), "the replacement")
    assert {rejecting, await cluster.bound("q")} == {"a", "b"}
    await cluster.create(owned("r"))
    text = f"0/2 nodes are available: 1 CardInsufficientMemory, 1 {REJECTED}."
    await cluster.until(lambda: says(cluster, "r", text), "the next one to wait")
    assert await operator.metric("vgpu_scheduler_closed_nodes", cause="pod_rejected") == 1

    def described() -> str:
        return str(cluster.plane.kubectl("describe", "pod", "p").stdout)

    async def is_told() -> bool:
        return "RejectedByKubelet" in described()

    await cluster.until(is_told, "the event")
    shown = described()
    assert re.search(r"^Reason: +OutOfcpu$", shown, re.MULTILINE)
    assert re.search(
        rf"Warning +RejectedByKubelet +\w+ +vgpu-scheduler +the kubelet of node {rejecting} rejected the pod: "
        "OutOfcpu; for 60 s pods like it go to other nodes",
        shown,
    )
