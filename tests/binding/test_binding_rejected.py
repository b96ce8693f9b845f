"""What becomes of a pod that its kubelet rejects, and of those that replace it, on an embedded API server."""

from __future__ import annotations

from pathlib import Path

from tests.binding.bench import PODS, Bench, bench
from tests.engine.builders import asks

from vgpu_scheduler.kube import Pod

OWNERS = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}]


async def owned(b: Bench, name: str) -> Pod:
    """Create a pod of a ReplicaSet and have it seen."""
    await b.create(name, asks(1, 1000))
    patch = {"metadata": {"ownerReferences": OWNERS}}
    answer = await b.call("PATCH", f"{PODS}/{name}", patch, content_type="application/merge-patch+json")
    assert answer.ok, answer.message
    await b.learn()
    [pod] = [known for known in b.engine.state.pods() if known.name == name]
    return pod


async def reject(b: Bench, name: str) -> None:
    status = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have ..."}}
    answer = await b.call("PATCH", f"{PODS}/{name}/status", status, content_type="application/merge-patch+json")
    assert answer.ok, answer.message


async def node_of(b: Bench, name: str) -> str:
    return str((await b.read(name))["spec"].get("nodeName", ""))


async def test_a_rejected_pod_is_told_of_and_replaced_elsewhere(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.learn()
        b.watch()
        await b.nodes.start()
        nodes = []
        for name in ("p", "q"):
            pod = await owned(b, name)
            b.submit()
            await b.until(lambda pod=pod: b.engine.state.pod(pod.uid).node_name)
            nodes.append(await node_of(b, name))
            await reject(b, name)
            await b.until(lambda pod=pod: b.engine.state.pod(pod.uid).terminal)
            assert b.engine.state.reservation(pod.uid) is None
        assert sorted(nodes) == ["node-a", "node-b"]
        assert b.engine.closed_nodes.kubelet_rejections.counts == {"OutOfcpu": 2}
        for node in nodes:
            await b.until(lambda node=node: b.tells("RejectedByKubelet", f"the kubelet of node {node} rejected"))
        told = [note for reason, note in await b.events() if reason == "RejectedByKubelet"]
        assert told == [
            f"the kubelet of node {node} rejected the pod: OutOfcpu; for 60 s pods like it go to other nodes"
            for node in nodes
        ]

        waiting = await owned(b, "r")
        assert b.submit() == 0
        b.clock.ahead += 61.0
        assert b.submit() == 1
        await b.until(lambda: b.engine.state.pod(waiting.uid).node_name)
        await reject(b, "r")
        await b.until(lambda: b.engine.state.pod(waiting.uid).terminal)
        await b.until(lambda: b.tells("RejectsPods"))
        repeated = [note for reason, note in await b.events() if reason == "RejectsPods"]
        assert repeated == ["the kubelet rejects pods that were placed here with what is known of the node: OutOfcpu"]
