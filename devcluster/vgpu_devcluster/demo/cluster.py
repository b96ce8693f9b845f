"""The cluster of the demo: an embedded API server, simulated nodes, and the operator as a process of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from vgpu_devcluster import DevCluster, NodeSide
from vgpu_devcluster.demo.fleet import CardUse, Fleet, WaitingPod
from vgpu_devcluster.demo.pods import NAMESPACE
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION, crds

SYSTEM = "vgpu-system"
AGENT = "vgpu-scheduler"
_POLICIES = f"/apis/{GROUP}/{VERSION}/clustervgpupolicies"
_ALL_PODS = "/api/v1/pods"
_POLL = 0.02
_CONCURRENT = 32

# The fleet: cards per node, of different sizes, as a grown cluster has them.
FLEET: Mapping[str, Sequence[str]] = {
    **{f"a100-{n}": ("A100-80G",) * 8 for n in range(4)},
    **{f"l40s-{n}": ("L40S",) * 4 for n in range(4)},
    **{f"v100-{n}": ("V100",) * 4 for n in range(2)},
    **{f"t4-{n}": ("T4",) * 2 for n in range(2)},
}
POOL = {"pool": "reserved"}
POOL_TAINT = {"key": "pool", "value": "reserved", "effect": "NoSchedule"}


class DemoCluster:
    """A cluster with an operator on it; make one with :func:`open_demo_cluster`."""

    def __init__(
        self, embedded: DevCluster, http: aiohttp.ClientSession, nodes: NodeSide, kubeconfig: Path, log: Path
    ) -> None:
        self._embedded = embedded
        self.nodes = nodes
        self.kubeconfig = embedded.kubeconfig(kubeconfig)
        self._http = http
        self._fleet: list[str] = []
        self.operator = OperatorProcess(self.kubeconfig, log, {"VGPU_PREEMPTION": "true"})  # policies say whether

    async def register(self, node: str, cards: Sequence[str], **more: Any) -> None:
        """Register a node with these cards; ``more`` is passed to :meth:`NodeSide.register`."""
        await self.nodes.register([node], cards, **more)
        self._fleet.append(node)

    async def start_fleet(self) -> None:
        """Register all nodes of the demo, including a reserved one, and start their plugins."""
        for name, cards in FLEET.items():
            await self.register(name, cards)
        await self.register("reserved-0", ("H100", "H100"), labels=POOL, taints=[POOL_TAINT])
        await self.nodes.start()

    async def look(self) -> Fleet:
        """Return the state of the fleet: the amounts handed out, and the running and waiting pods."""
        pods = await self._list(_ALL_PODS)
        waiting = [
            WaitingPod(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", unschedulable(pod))
            for pod in pods
            if not pod["spec"].get("nodeName")
        ]
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        return Fleet({node: self._cards(node) for node in self._fleet}, running, waiting)

    def _cards(self, node: str) -> list[CardUse]:
        used = self.nodes.used(node)
        return [
            CardUse(card.model, card.memory, used[card.uuid].memory if card.uuid in used else 0)
            for card in self.nodes.cards(node)
        ]

    # The operator ----------------------------------------------------------------------------------------------------

    async def start_operator(self) -> None:
        """Start the operator and wait until it leads."""
        self.operator.start()
        await self.operator.until_leading()

    # Pods ------------------------------------------------------------------------------------------------------------

    async def create(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Create pods, a few at a time."""
        gate = asyncio.Semaphore(_CONCURRENT)

        async def one(pod: Mapping[str, Any]) -> None:
            async with gate:
                await self._send("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)

        await asyncio.gather(*(one(pod) for pod in pods))

    async def pods(self) -> list[dict[str, Any]]:
        """Return all pods."""
        return await self._list(_ALL_PODS)

    async def pod(self, name: str) -> dict[str, Any]:
        """Return one pod."""
        async with self._http.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}") as answer:
            return dict(await answer.json())

    def started(self) -> int:
        """Return how many pods the nodes have started so far; takes no request, so it does not disturb measurements."""
        return self.nodes.counts["running"]

    async def running(self) -> int:
        """Count the pods that run."""
        return sum(pod["status"].get("phase") == "Running" for pod in await self.pods())

    async def clear(self) -> None:
        """Delete all pods, and wait until they are gone."""
        for pod in await self.pods():
            await self.nodes.delete(pod["metadata"]["namespace"], pod["metadata"]["name"])
        await self.until_async(self._no_pods, "all pods to be gone", 30)

    async def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        await self._send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    async def create_settings(self, namespace: str) -> None:
        """Write the operator's settings into a ConfigMap, as for an installed operator."""
        data = {"settings.yaml": f"scheduler_names: [{AGENT}]\npreemption: true\n"}
        await self._send(
            "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": AGENT}, "data": data}
        )

    async def _list(self, path: str) -> list[dict[str, Any]]:
        async with self._http.get(path) as answer:
            listed = await answer.json()
        return list(listed["items"])

    async def _no_pods(self) -> bool:
        return not await self.pods() and not any((await self.operator.ledger())["ledger"].values())

    # Policies --------------------------------------------------------------------------------------------------------

    async def define_policies(self) -> None:
        """Post the CustomResourceDefinitions, as installing the operator does."""
        for definition in crds():
            await self._send("POST", f"/apis/{definition['apiVersion']}/customresourcedefinitions", definition)

    async def set_policy(self, name: str, spec: Mapping[str, Any]) -> None:
        """Create or replace a cluster policy, and wait until the operator reports this generation as Ready."""
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": CLUSTER_KIND, "metadata": {"name": name}, "spec": spec}
        async with self._http.get(f"{_POLICIES}/{name}") as answer:
            known = await answer.json() if answer.status == 200 else None
        if known is None:
            await self._send("POST", _POLICIES, body)
        else:
            body["metadata"] = {"name": name, "resourceVersion": known["metadata"]["resourceVersion"]}
            await self._send("PUT", f"{_POLICIES}/{name}", body)
        await self.until_async(lambda: self._ready(name), f"policy {name} to be ready", 30)

    async def delete_policy(self, name: str) -> None:
        """Delete a cluster policy."""
        await self._send("DELETE", f"{_POLICIES}/{name}", None)

    async def _ready(self, name: str) -> bool:
        async with self._http.get(f"{_POLICIES}/{name}") as answer:
            policy = await answer.json()
        conditions = {condition["type"]: condition for condition in policy.get("status", {}).get("conditions", [])}
        ready = conditions.get("Ready", {})
        current = ready.get("observedGeneration") == policy["metadata"]["generation"]
        return bool(current and ready.get("status") == "True")

    async def _send(self, method: str, path: str, body: object) -> None:
        async with self._http.request(method, path, json=body) as answer:
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {await answer.text()}")

    # Requests --------------------------------------------------------------------------------------------------------

    def requests(self) -> tuple[int, int, int]:
        """Return how many writes, events and reads the operator has sent for pods so far."""
        count = self._embedded.requests.total

        def total(verb: str, *resources: str) -> int:
            return sum(count(user_agent=AGENT, verb=verb, resource=resource) for resource in resources)

        writes = total("patch", "nodes", "pods", "pods/status") + total("create", "pods/binding")
        return writes, total("create", "events"), total("get", "pods", "nodes")

    # Waiting ---------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str, within: float) -> None:
        """Wait for a condition that can be checked directly."""

        async def ask() -> bool:
            return condition()

        await self.until_async(ask, what, within)

    async def until_async(self, condition: Callable[[], Any], what: str, within: float) -> None:
        """Wait for a condition that takes a request to check.

        Raises
        ------
        TimeoutError
            If it does not come true in time.
        """
        deadline = asyncio.get_running_loop().time() + within
        while not await condition():
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"waited {within:.0f} s for {what}")
            await asyncio.sleep(_POLL)


def unschedulable(pod: Mapping[str, Any]) -> str:
    """Return the message of a waiting pod's condition; empty if it has none."""
    conditions = pod["status"].get("conditions", [])
    found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return str(found[0]["message"]) if found else ""


@asynccontextmanager
async def open_demo_cluster(log: Path | None, kubeconfig: Path | None = None) -> AsyncIterator[DemoCluster]:
    """Start the cluster, without the operator yet, and end it with the block.

    Parameters
    ----------
    log
        The file of the operator's log.
    kubeconfig
        Where to write the kubeconfig, which is removed at the end; by default in a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="vgpu-demo-") as name, DevCluster.thread() as embedded:
        async with aiohttp.ClientSession(embedded.url) as http, NodeSide(embedded.url) as nodes:
            folder = Path(name)
            where = (kubeconfig or folder / "kubeconfig.yaml").absolute()
            cluster = DemoCluster(embedded, http, nodes, where, log or folder / "operator.log")
            try:
                await cluster.create_namespace(SYSTEM)
                await cluster.define_policies()
                yield cluster
            finally:
                cluster.operator.stop()
                where.unlink(missing_ok=True)
