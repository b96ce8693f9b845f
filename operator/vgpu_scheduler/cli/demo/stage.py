"""The stage of the demo: an embedded API server, simulated nodes, and the operator as a process of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from vgpu_scheduler.cli.demo.process import OperatorProcess
from vgpu_scheduler.devcluster import DevCluster, NodeSide

NAMESPACE = "default"
AGENT = "vgpu-scheduler"
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


class Stage:
    """A cluster with an operator on it; make one with :func:`open_stage`."""

    def __init__(
        self, cluster: DevCluster, http: aiohttp.ClientSession, nodes: NodeSide, folder: Path, log: Path
    ) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self._http = http
        self.operator = OperatorProcess(cluster.kubeconfig(folder / "kubeconfig.yaml"), log)

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
            async with gate, self._http.post(f"/api/v1/namespaces/{NAMESPACE}/pods", json=pod) as answer:
                if answer.status >= 400:
                    raise RuntimeError(f"pod {pod['metadata']['name']}: {await answer.text()}")

        await asyncio.gather(*(one(pod) for pod in pods))

    async def pods(self) -> list[dict[str, Any]]:
        """Return all pods of the demo."""
        async with self._http.get(f"/api/v1/namespaces/{NAMESPACE}/pods") as answer:
            listed = await answer.json()
        return list(listed["items"])

    async def pod(self, name: str) -> dict[str, Any]:
        """Return one pod."""
        async with self._http.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}") as answer:
            return dict(await answer.json())

    async def running(self) -> int:
        """Count the pods that run."""
        return sum(pod["status"].get("phase") == "Running" for pod in await self.pods())

    async def clear(self) -> None:
        """Delete all pods, and wait until they are gone."""
        for pod in await self.pods():
            await self.nodes.delete(NAMESPACE, pod["metadata"]["name"])
        await self.until_async(self._no_pods, "all pods to be gone", 30)

    async def _no_pods(self) -> bool:
        return not await self.pods() and not any((await self.operator.ledger())["ledger"].values())

    # Requests --------------------------------------------------------------------------------------------------------

    def requests(self) -> tuple[int, int, int]:
        """Return how many writes, events and reads the operator has sent for pods so far."""
        count = self.cluster.requests.total

        def total(verb: str, *resources: str) -> int:
            return sum(count(user_agent=AGENT, verb=verb, resource=resource) for resource in resources)

        writes = total("patch", "nodes", "pods", "pods/status") + total("create", "pods/binding")
        return writes, total("create", "events"), total("get", "pods", "nodes")

    # Waiting ---------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], what: str, within: float) -> None:
        """Wait for something that can be asked at once."""

        async def ask() -> bool:
            return condition()

        await self.until_async(ask, what, within)

    async def until_async(self, condition: Callable[[], Any], what: str, within: float) -> None:
        """Wait for something that takes a request to ask.

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


@asynccontextmanager
async def open_stage(log: str | None) -> AsyncIterator[Stage]:
    """Set the stage, without the operator yet, and clear it in the end."""
    with tempfile.TemporaryDirectory(prefix="vgpu-demo-") as name, DevCluster.thread() as cluster:
        async with aiohttp.ClientSession(cluster.url) as http, NodeSide(cluster.url) as nodes:
            async with http.post("/api/v1/namespaces", json={"metadata": {"name": "vgpu-system"}}):
                pass
            folder = Path(name)
            stage = Stage(cluster, http, nodes, folder, Path(log) if log else folder / "operator.log")
            try:
                yield stage
            finally:
                stage.operator.stop()
