"""Pods per second end to end, on a real kube-apiserver and etcd: bare Bindings, plain pods, shared GPUs."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.apiserver.control_plane import ControlPlane

from vgpu_scheduler.cli.demo.process import OperatorProcess
from vgpu_scheduler.devcluster import Behaviour, NodeSide

NODES = 500
CARDS = ("A100-80G",) * 8
NODE_SIDE_DELAY = 0.02
CONCURRENT = 32
ROUND = 1000
"""Pods of one measurement."""
WITHIN = 180.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """One measurement."""

    what: str
    pods: int
    seconds: float

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


def _pod(name: str, scheduler: str, limits: dict[str, str]) -> dict[str, Any]:
    resources = {"limits": limits} if limits else {"requests": {"cpu": "10m"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "example", "resources": resources}],
        },
    }


async def _each(http: aiohttp.ClientSession, requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(path: str, body: dict[str, Any]) -> None:
        async with gate, http.post(path, json=body) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"POST {path}: {answer.status} {await answer.text()}")
            await answer.read()

    await asyncio.gather(*(one(path, body) for path, body in requests))


async def _bare_bindings(http: aiohttp.ClientSession) -> Throughput:
    """Bind pods with the bare API call, without deciding anything: what the API server gives at most."""
    path = "/api/v1/namespaces/default/pods"
    await _each(http, [(path, _pod(f"bare-{n}", "nobody", {})) for n in range(ROUND)])
    bodies = [
        (
            f"{path}/bare-{n}/binding",
            {"metadata": {"name": f"bare-{n}"}, "target": {"kind": "Node", "name": f"node-{n % NODES:03d}"}},
        )
        for n in range(ROUND)
    ]
    began = time.perf_counter()
    await _each(http, bodies)
    return Throughput("bare Binding calls", ROUND, time.perf_counter() - began)


async def _through_operator(
    http: aiohttp.ClientSession, operator: OperatorProcess, what: str, limits: dict[str, str]
) -> Throughput:
    """Have pods that wait already bound by an operator that starts: the creation of pods takes nothing from it."""
    path = "/api/v1/namespaces/default/pods"
    prefix = "-".join(what.replace(",", "").split())
    await _each(http, [(path, _pod(f"{prefix}-{n}", "vgpu-scheduler", limits)) for n in range(ROUND)])
    operator.start()
    try:
        await operator.until_leading()
        deadline = time.perf_counter() + WITHIN
        counts: list[tuple[float, float]] = []
        while not counts or counts[-1][1] < ROUND:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{what}: not bound after {WITHIN:.0f} s\n{operator.log[-2000:]}")
            bound = await operator.metric("vgpu_scheduler_binds_total", result="bound")
            counts.append((time.perf_counter(), bound))
            await asyncio.sleep(0.05)  # asking costs the operator time, too
    finally:
        operator.stop()
    # From the first look that found any bound, so that the start of the process does not count.
    first, last = next(found for found in counts if found[1] > 0), counts[-1]
    return Throughput(what, int(last[1] - first[1]), last[0] - first[0])


async def measure() -> tuple[list[Throughput], float]:
    """Measure everything in one run; return it with the operator's peak memory in MiB."""
    names = [f"node-{n:03d}" for n in range(NODES)]
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane:
        tls = plane.ssl_context()
        headers = {"Authorization": f"Bearer {plane.token}"}
        quiet = True
        nodes = NodeSide(
            plane.url,
            token=plane.token,
            tls=tls,
            delay=NODE_SIDE_DELAY,
            behave=lambda _: Behaviour(quiet=quiet),
        )
        connector = aiohttp.TCPConnector(ssl=tls)
        async with aiohttp.ClientSession(plane.url, headers=headers, connector=connector) as http, nodes:
            plane.create_namespace("vgpu-system", exist_ok=True)
            await nodes.register(names, CARDS)
            operator = OperatorProcess(plane.kubeconfig(), Path(folder) / "operator.log")
            results = [await _bare_bindings(http)]
            results.append(await _through_operator(http, operator, "plain pods, no node lock", {}))
            await nodes.start()
            await nodes.until(lambda: nodes.counts["running"] >= 2 * ROUND, within=WITHIN)
            limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "10"}
            results.append(await _through_operator(http, operator, "slices, node side that releases the lock", limits))
            quiet = False
            results.append(await _through_operator(http, operator, "slices, node side with all its writes", limits))
            if nodes.violations:
                raise RuntimeError(f"the node side objects: {nodes.violations[:3]}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return results, peak
