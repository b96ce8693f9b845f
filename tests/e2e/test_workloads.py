"""Workloads as people write them, with Kubernetes' own controllers and its scheduler beside ours on one API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import Cluster, slice_pod
from tests.e2e.volumes import ZONE

from vgpu_devcluster.process import OperatorProcess

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REVISION = "pod-template-hash"
WEB = {"matchLabels": {"app": "web"}}


@pytest.fixture(scope="module")
def controllers(installed_plane: ControlPlane) -> Iterator[None]:
    with installed_plane.controllers("deployment-controller", "replicaset-controller"):
        yield


@pytest.fixture
async def zones(cluster: Cluster, controllers: None) -> AsyncIterator[Cluster]:
    """Three zones of two nodes; what workloads made is gone afterwards."""
    for zone in "abc":
        await cluster.nodes.register([f"{zone}1", f"{zone}2"], ("A100-40G",) * 2, labels={ZONE: zone})
    await cluster.nodes.start()
    yield cluster
    await (await cluster.http.delete(DEPLOYMENTS)).release()
    await (await cluster.http.delete("/apis/apps/v1/namespaces/default/replicasets")).release()


def deployment(replicas: int, image: str, **spec: Any) -> dict[str, Any]:
    template = slice_pod("x", gpu=1, gpumem=4096, gpucores=10)
    template["metadata"] = {"labels": {"app": "web"}}
    template["spec"] |= spec
    template["spec"]["containers"][0]["image"] = image
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}}
    rollout = {"replicas": replicas, "selector": WEB, "template": template, "strategy": strategy}
    return {"metadata": {"name": "web"}, "spec": rollout}


async def post(cluster: Cluster, path: str, body: dict[str, Any]) -> None:
    async with cluster.http.post(path, json=body) as answer:
        assert answer.status == 201, await answer.text()


async def patch(cluster: Cluster, path: str, body: Any, kind: str = "merge-patch") -> None:
    async with cluster.http.patch(path, json=body, headers={"Content-Type": f"application/{kind}+json"}) as answer:
        assert answer.status == 200, await answer.text()


async def placed(cluster: Cluster, label: str, value: str) -> list[dict[str, Any]]:
    """Return the bound pods that have a label and are not being deleted."""
    return [
        pod
        for pod in await cluster.pods()
        if pod["metadata"].get("labels", {}).get(label) == value
        and pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
    ]


async def ready(cluster: Cluster) -> None:
    """Say of running pods that they are ready, as their kubelets would: rollouts wait for that."""
    for pod in await cluster.pods():
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
        if pod["status"].get("phase") == "Running" and conditions.get("Ready") != "True":
            name = pod["metadata"]["name"]
            status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            async with cluster.http.patch(
                f"/api/v1/namespaces/default/pods/{name}/status",
                json=status,
                headers={"Content-Type": "application/strategic-merge-patch+json"},
            ):
                pass


def by_zone(pods: list[dict[str, Any]]) -> Counter[str]:
    return Counter(pod["spec"]["nodeName"][0] for pod in pods)


async def test_a_rollout_is_spread_over_zones_revision_by_revision(zones: Cluster, operator: OperatorProcess) -> None:
    spread = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "matchLabelKeys": [REVISION],
    }
    await post(zones, DEPLOYMENTS, deployment(9, "one", topologySpreadConstraints=[spread]))

    async def rolled_out(image: str) -> bool:
        await ready(zones)
        pods = await placed(zones, "app", "web")
        return len(pods) == 9 and all(pod["spec"]["containers"][0]["image"] == image for pod in pods)

    await zones.until(lambda: rolled_out("one"), "the first revision")
    assert set(by_zone(await placed(zones, "app", "web")).values()) == {3}
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}}}
    await patch(zones, f"{DEPLOYMENTS}/web", change, "strategic-merge-patch")
    await zones.until(lambda: rolled_out("two"), "the second revision", within=120)
    pods = await placed(zones, "app", "web")
    assert len({pod["metadata"]["labels"][REVISION] for pod in pods}) == 1
    # The revision is spread by itself: pods of the first one, which went meanwhile, do not count.
    assert set(by_zone(pods).values()) == {3}


async def test_a_gate_that_is_removed_later_lets_the_pod_go(zones: Cluster, operator: OperatorProcess) -> None:
    gated = slice_pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await zones.create(gated, slice_pod("free"))
    await zones.until(lambda: zones.bound("free"), "the other pod")
    path = "/api/v1/namespaces/default/pods/gated"
    await patch(zones, path, {"spec": {"schedulingGates": [{"name": "example.com/b"}]}})
    await zones.create(slice_pod("later"))
    await zones.until(lambda: zones.bound("later"), "a third pod")
    assert not await zones.bound("gated")
    (condition,) = [c for c in (await zones.pod("gated"))["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert condition["reason"] == "SchedulingGated", "it is the API server's to say"
    await patch(zones, path, {"spec": {"schedulingGates": None}})
    await zones.until(lambda: zones.bound("gated"), "the pod without gates")


async def test_kube_scheduler_fills_the_same_nodes_at_the_same_time(
    zones: Cluster, operator: OperatorProcess, installed_plane: ControlPlane
) -> None:
    """Both place pods that keep each other away, by host, in turn: neither puts two on one node."""
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"alone": "yes"}}}]}}  # fmt: skip
    with installed_plane.scheduler():
        pods = []
        for number in range(3):
            ours, theirs = slice_pod(f"ours-{number}"), slice_pod(f"theirs-{number}")
            del theirs["spec"]["schedulerName"], theirs["spec"]["containers"][0]["resources"]
            for pod in (ours, theirs):
                pod["metadata"]["labels"] = {"alone": "yes"}
                pod["spec"]["affinity"] = away
            pods += [theirs, ours]
        for pod in pods:  # each is bound before the next comes: the schedulers know of each other what is bound
            await zones.create(pod)
            await zones.until(partial(zones.bound, pod["metadata"]["name"]), "a node for the pod")
        where = Counter(pod["spec"]["nodeName"] for pod in await placed(zones, "alone", "yes"))
        assert max(where.values()) == 1
        seventh = slice_pod("seventh")
        seventh["metadata"]["labels"] = {"alone": "yes"}
        seventh["spec"]["affinity"] = away
        await zones.create(seventh)
        await zones.until(lambda: zones.message("seventh"), "a reason")
        assert await zones.message("seventh") == (
            "0/6 nodes are available: 6 node(s) didn't match pod anti-affinity rules."
        )
        await (await zones.http.delete("/api/v1/namespaces/default/pods/theirs-1?gracePeriodSeconds=0")).release()
        await zones.until(lambda: zones.bound("seventh"), "the node that became free")


async def test_resources_that_kube_scheduler_takes_are_not_given_out_again(
    zones: Cluster, operator: OperatorProcess, installed_plane: ControlPlane
) -> None:
    """Sixty pods of each scheduler compete for processors; in the end no node has given out more than it has."""
    with installed_plane.scheduler():
        pods = []
        for number in range(60):
            ours, theirs = slice_pod(f"ours-{number}", gpu=1, gpumem=1024), slice_pod(f"theirs-{number}")
            del theirs["spec"]["schedulerName"]
            theirs["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
            ours["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
            pods += [ours, theirs]
        await zones.create(*pods)

        async def settled() -> bool:
            found = await zones.pods()
            return len([pod for pod in found if pod["spec"].get("nodeName")]) == 120

        await zones.until(settled, "all pods", within=120)
    cpus: Counter[str] = Counter()
    for pod in await zones.pods():
        cpus[pod["spec"]["nodeName"]] += int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    books = await operator.ledger()
    assert not books["drift"]
    over = {node: amount for node, amount in cpus.items() if amount > 64}
    # Each decides from what it has seen: a node may be over by what was on its way, and its kubelet says no to that.
    assert sum(over.values()) - 64 * len(over) <= 24, over


async def test_room_that_kube_scheduler_made_is_kept_for_its_pod(
    zones: Cluster, operator: OperatorProcess, installed_plane: ControlPlane
) -> None:
    """A pod that it nominated holds what was freed for it, until it is bound or gone."""

    def takes(name: str, cpu: str, **more: Any) -> dict[str, Any]:
        pod = slice_pod(name)
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        pod["spec"] |= {"nodeSelector": {"kubernetes.io/hostname": "a1"}, **more}
        return pod

    path = "/api/v1/namespaces/default/pods/victim"
    theirs = {"schedulerName": "default-scheduler"}
    priority = {"metadata": {"name": "urgent"}, "value": 1000}
    installed_plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    try:
        victim = takes("victim", "40", **theirs)
        victim["metadata"]["finalizers"] = ["example.com/goes-slowly"]
        with installed_plane.scheduler():
            await zones.create(victim)
            await zones.until(lambda: zones.bound("victim"), "the victim")
            await zones.create(takes("nominee", "40", priorityClassName="urgent", **theirs))

            async def nominated() -> bool:
                is_leaving = "deletionTimestamp" in (await zones.pod("victim"))["metadata"]
                return is_leaving and (await zones.pod("nominee"))["status"].get("nominatedNodeName") == "a1"

            await zones.until(nominated, "the nomination, and the victim's end, which may come later")
        await patch(zones, path, {"metadata": {"finalizers": None}})  # its scheduler is gone, and cannot bind it
        await zones.create(takes("ours", "30"))
        message = "1 Insufficient cpu"

        async def gone() -> bool:
            return (await zones.pod("victim")).get("code") == 404 and message in await zones.message("ours")

        await zones.until(gone, "the victim to be gone")
        await zones.create(takes("small", "20"))
        await zones.until(lambda: zones.bound("small"), "a pod that leaves enough")
        assert not await zones.bound("ours")
        await (await zones.http.delete("/api/v1/namespaces/default/pods/nominee?gracePeriodSeconds=0")).release()
        await zones.until(lambda: zones.bound("ours"), "the room that nobody needs any more", within=20.0)
    finally:
        installed_plane.request("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/urgent")
