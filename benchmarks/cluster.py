"""The cluster that benchmarks run on: a real API server and etcd, and nodes with cards registered."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from tests.apiserver.control_plane import ControlPlane

from vgpu_devcluster import Behaviour, NodeSide, equip, registration
from vgpu_devcluster.process import OperatorProcess

CARDS: Final = ("A100-80G",) * 8
"""Those of each node."""
PODS: Final = "/api/v1/namespaces/default/pods"
SLICE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "10"}
"""What a slice asks for."""
LINE: Final = 2**21
"""Bytes of the longest line of a watch that is read."""


T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T | None]],
    failure: Callable[[], str],
    within: float,
    pause: float,
    process: OperatorProcess | None = None,
) -> T:
    """Look again and again until something is found, and return that.

    Parameters
    ----------
    failure
        Returns what is said if it is not found in time.
    within, pause
        Seconds that it may take, and between two looks: they cost who is asked time, too.
    process
        It is not waited for any longer than this runs.

    Raises
    ------
    TimeoutError
        If nothing is found in time.
    """
    deadline = time.perf_counter() + within
    while (found := await look()) is None:
        if time.perf_counter() > deadline or (process is not None and process.exit_code is not None):
            raise TimeoutError(failure())
        await asyncio.sleep(pause)
    return found


@dataclass(slots=True)
class NodeSideManner:
    """How the node side treats all pods.

    Attributes
    ----------
    quiet
        It only releases the lock of a pod, and writes nothing else.
    """

    quiet: bool = True

    def __call__(self, _: object) -> Behaviour:
        """Return how it treats a pod."""
        return Behaviour(quiet=self.quiet)


@dataclass(slots=True)
class BenchmarkCluster:
    """A cluster to measure on.

    Attributes
    ----------
    http
        Requests of an administrator.
    nodes
        The node side; nobody plays it until it is started.
    folder
        For logs and the like, as long as the cluster is there.
    manner
        How the node side treats pods.
    """

    plane: ControlPlane
    http: aiohttp.ClientSession
    nodes: NodeSide
    folder: Path
    manner: NodeSideManner


@asynccontextmanager
async def cluster(nodes: int, delay: float = 0.0, api_flags: tuple[str, ...] = ()) -> AsyncIterator[BenchmarkCluster]:
    """Run a cluster with so many nodes.

    Parameters
    ----------
    delay
        Seconds after which the node side answers.
    api_flags
        Further flags of the API server.
    """
    with tempfile.TemporaryDirectory() as folder, ControlPlane(api_flags=api_flags) as plane:
        tls, headers = plane.ssl_context(), {"Authorization": f"Bearer {plane.token}"}
        connector = aiohttp.TCPConnector(ssl=tls)
        http = aiohttp.ClientSession(plane.url, headers=headers, connector=connector, read_bufsize=LINE)
        manner = NodeSideManner()
        side = NodeSide(plane.url, token=plane.token, tls=tls, delay=delay, behave=manner)
        async with http, side:
            plane.create_namespace("vgpu-system", exist_ok=True)
            await side.register([node_name(number, nodes) for number in range(nodes)], CARDS)
            yield BenchmarkCluster(plane, http, side, Path(folder), manner)


def node_name(number: int, nodes: int) -> str:
    """Return the name of one of so many nodes."""
    return f"node-{number:0{len(str(nodes - 1))}d}"


def registered_node(number: int, nodes: int, version: int = 1) -> dict[str, Any]:
    """Return one of so many nodes as the API server would show it, with its cards registered, in one of three zones."""
    name = node_name(number, nodes)
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(10 * len(CARDS))}
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{version % 60:02d}Z"}]
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/hostname": name, "zone": f"zone-{number % 3}"},
            "annotations": {"hami.io/node-nvidia-register": registration(equip(name, CARDS))},
        },
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions},
    }


def pod(name: str, scheduler: str, limits: dict[str, str]) -> dict[str, Any]:
    """Return a pod; without limits it asks for a little CPU."""
    resources = {"limits": limits} if limits else {"requests": {"cpu": "10m"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "example", "resources": resources}],
        },
    }


@asynccontextmanager
async def following_pods(http: aiohttp.ClientSession, take: Callable[[dict[str, Any]], None]) -> AsyncIterator[None]:
    """Follow the pods of a cluster for the time of the block.

    Parameters
    ----------
    take
        Takes in each event of the watch.
    """

    async def read(answer: aiohttp.ClientResponse) -> None:
        async for line in answer.content:
            take(json.loads(line))

    async with http.get(PODS, params={"watch": "true"}, timeout=aiohttp.ClientTimeout(total=None)) as answer:
        task = asyncio.create_task(read(answer))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def post(http: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    """Create an object.

    Raises
    ------
    RuntimeError
        If the API server refuses it.
    """
    async with http.post(path, json=body) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"POST {path}: {answer.status} {await answer.text()}")
        await answer.read()
