"""Taking a cluster over from HAMi: from objects as HAMi leaves them to equal books, and back."""

from __future__ import annotations

import time
from typing import Any

from tests.e2e.conftest import PLUGIN, Cluster

from vgpu_scheduler.cli.demo.process import OperatorProcess

HAMI = "hami-scheduler"
NODE = "hami.io/vgpu-node"
ALLOCATED, TO_ALLOCATE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
LOCK = "hami.io/mutex.lock"


def hami_pod(name: str, *containers: bool, gpumem: int = 2000) -> dict[str, Any]:
    """A pod as HAMi's webhook leaves it; each container says whether it asks for a card."""
    asks = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(gpumem), "nvidia.com/gpucores": "10"}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": HAMI,
            "containers": [
                {"name": f"c{number}", "image": "example", "resources": {"limits": asks} if wants else {}}
                for number, wants in enumerate(containers or (True,))
            ],
        },
    }


def as_hami(cluster: Cluster) -> dict[str, str]:
    """Headers of one of those who may write allocations."""
    return {"Authorization": f"Bearer {cluster.plane.tokens[PLUGIN]}"}


async def decided(
    cluster: Cluster, pod: dict[str, Any], node: str, value: str, consumed: str = "", **more: str
) -> None:
    """Write what HAMi's Filter writes: annotations and the label, before anything is bound."""
    annotations = {NODE: node, "hami.io/vgpu-time": "1767225600", ALLOCATED: value, TO_ALLOCATE: consumed or value}
    pod["metadata"] |= {"annotations": {**annotations, **more}, "labels": {NODE: node}}
    path = "/api/v1/namespaces/default/pods"
    async with cluster.http.post(path, json=pod, headers=as_hami(cluster)) as answer:
        assert answer.status == 201, await answer.text()


async def bound(cluster: Cluster, name: str, node: str, phase: str = "") -> None:
    """Bind a pod as HAMi does, and let it run where a phase is given."""
    path = f"/api/v1/namespaces/default/pods/{name}"
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    async with cluster.http.post(f"{path}/binding", json=target, headers=as_hami(cluster)) as answer:
        assert answer.status == 201, await answer.text()
    if phase:
        statuses = [
            {"name": c["name"], "image": "example", "imageID": "", "ready": True, "restartCount": 0,
             "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            for c in (await cluster.pod(name))["spec"]["containers"]
        ]  # fmt: skip
        body = {"status": {"phase": phase, "containerStatuses": statuses}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with cluster.http.patch(f"{path}/status", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def in_step(cluster: Cluster, operator: OperatorProcess, nodes: tuple[str, ...]) -> bool:
    page = await operator.ledger()
    booked = {uuid: used[:3] for node in page["ledger"].values() for uuid, used in node.items()}
    held = {
        uuid: [used.slots, used.memory, used.cores]
        for node in nodes
        for uuid, used in cluster.nodes.used(node).items()
    }  # fmt: skip
    return booked == held and not page["drift"]


async def test_a_cluster_with_pods_in_every_state_is_taken_over(cluster: Cluster) -> None:
    nodes = ("node-a", "node-b")
    side = cluster.nodes
    await side.register(nodes, ["A10", "A10"], count=4)
    first, second = (card.uuid for card in side.cards("node-a"))
    third, _ = (card.uuid for card in side.cards("node-b"))
    done = {"hami.io/bind-phase": "success", "hami.io/bind-time": "1767225600"}
    # Running, as 2.10.0 writes it: no entry for the container without a card, consumed and grown by the plugin.
    await decided(cluster, hami_pod("padless", False, True), "node-a", f"{first},NVIDIA,2000,10:;", ";;;", **done)
    await bound(cluster, "padless", "node-a", "Running")
    # Running, as 2.4 writes it, to a plugin that drops empty entries.
    await decided(cluster, hami_pod("old", True, False), "node-a", f"{first},NVIDIA,2000,10:;", ";", **done)
    await bound(cluster, "old", "node-a", "Running")
    # Bound, and its plugin has not answered yet: it holds the lock of its node.
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    await _annotate(cluster, "node-b", {LOCK: f"{stamp},default,allocating"})
    allocating = {"hami.io/bind-phase": "allocating", "hami.io/bind-time": str(int(time.time()))}
    await decided(cluster, hami_pod("allocating"), "node-b", f"{third},NVIDIA,2000,10:;", **allocating)
    # Decided, never bound: HAMi went away in between. The other node's lock is left over from it.
    await decided(cluster, hami_pod("announced", gpumem=20000), "node-a", f"{second},NVIDIA,20000,10:;")
    await _annotate(cluster, "node-a", {LOCK: "2026-01-01T00:00:00Z,default,long-gone"})
    await bound(cluster, "allocating", "node-b")

    operator = cluster.operator(VGPU_SCHEDULER_NAMES=f"vgpu-scheduler,{HAMI}")
    operator.start()
    try:
        await side.start()
        await operator.until_leading()
        await cluster.create(hami_pod("new"))
        await side.until(lambda: side.counts["running"] == 3, within=60.0)  # allocating, announced and new
        assert side.violations == []
        await cluster.until(lambda: in_step(cluster, operator, nodes), "equal books")
        used = {**side.used("node-a"), **side.used("node-b")}
        assert used[first].memory >= 4000  # both running pods, however their entries are aligned
        notes = (await cluster.pod("announced"))["metadata"]["annotations"]
        assert notes[NODE] == await cluster.bound("announced")
    finally:
        operator.stop()


async def test_beside_hami_its_decisions_count_and_its_nodes_are_left_alone(cluster: Cluster) -> None:
    side = cluster.nodes
    await side.register(["ours"], ["A10"], count=4, labels={"pool": "ours"})
    await side.register(["theirs"], ["A10"], count=4, labels={"pool": "hami"})
    (card,) = (card.uuid for card in side.cards("ours"))
    await decided(cluster, hami_pod("announced", gpumem=20000), "ours", f"{card},NVIDIA,20000,10:;")
    await side.start()
    operator = cluster.operator(VGPU_MANAGED_NODES="pool=ours", VGPU_COEXIST_WITH=HAMI)
    operator.start()
    try:
        await operator.until_leading()
        big = hami_pod("big", gpumem=4000)
        big["spec"]["schedulerName"] = "vgpu-scheduler"
        await cluster.create(big)

        async def told() -> bool:
            message = await cluster.message("big")
            return "1 CardInsufficientMemory" in message and "1 node(s) are not managed by this scheduler" in message

        await cluster.until(told, "the pod to wait")
        async with cluster.http.delete("/api/v1/namespaces/default/pods/announced") as answer:
            assert answer.status == 200
        await cluster.until(lambda: cluster.bound("big"), "the pod to be bound")
        assert await cluster.bound("big") == "ours"
    finally:
        operator.stop()


async def test_a_dead_plugin_keeps_its_tenants_and_gets_no_new_pod(cluster: Cluster) -> None:
    side = cluster.nodes
    await side.register(["node-a"], ["A10"], count=4)
    await side.start()
    operator = cluster.operator(VGPU_SCHEDULER_NAMES=HAMI)
    operator.start()
    try:
        await operator.until_leading()
        await cluster.create(hami_pod("tenant"))
        await side.until(lambda: side.counts["running"] == 1)
        await side.kill_plugin("node-a")
        await cluster.create(hami_pod("late"))

        async def told() -> bool:
            return "1 Insufficient nvidia.com/gpu" in await cluster.message("late")

        await cluster.until(told, "the pod to wait")
        await cluster.until(lambda: in_step(cluster, operator, ("node-a",)), "the tenant to be charged")
        await side.revive_plugin("node-a")
        await side.until(lambda: side.counts["running"] == 2)
        assert side.violations == []
    finally:
        operator.stop()


async def _annotate(cluster: Cluster, node: str, annotations: dict[str, str]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"metadata": {"annotations": annotations}}
    async with cluster.http.patch(f"/api/v1/nodes/{node}", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
