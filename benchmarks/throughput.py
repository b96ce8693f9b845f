"""Pods per second end to end, on a real kube-apiserver and etcd: bare Bindings, plain pods, shared GPUs."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp
from tests.apiserver.control_plane import ControlPlane

from benchmarks.cluster import PODS, SLICE, BenchmarkCluster, cluster, node_name, pod, post
from vgpu_scheduler.cli.demo.process import OperatorProcess, summed

NODES = 500
MANY_NODES = 5000
NODE_SIDE_DELAY = 0.02
CONCURRENT = 32
ROUND = 1500
"""Pods of one turn."""
WARM = 500
"""Pods of a turn that do not count: what a scheduler does as it starts, such as listing nodes, is over by then."""
TURNS = 4
"""Turns of each candidate, an even number."""
WITHIN = 180.0
PLAIN = "plain pods, no node lock"
PLAIN_ON_MANY = f"plain pods, no node lock, {MANY_NODES:,} nodes"
SLICES = "slices, node side that releases the lock"
SLICES_WITH_ALL_WRITES = "slices, node side with all its writes"


@dataclass(frozen=True, slots=True)
class Throughput:
    """One measurement."""

    what: str
    pods: int
    seconds: float
    cpu: float = 0.0
    """Seconds of the scheduler's CPU for all of these pods."""
    whose: str = ""
    """Which other scheduler was measured; empty for the operator of this checkout."""

    @property
    def cpu_per_pod(self) -> float:
        """Milliseconds of the scheduler's CPU per pod."""
        return 1000.0 * self.cpu / self.pods

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


async def create(http: aiohttp.ClientSession, requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Post objects to their paths, some at once."""
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(path: str, body: dict[str, Any]) -> None:
        async with gate:
            await post(http, path, body)

    await asyncio.gather(*(one(path, body) for path, body in requests))


async def _bare_bindings(http: aiohttp.ClientSession) -> Throughput:
    """Bind pods with the bare API call, without deciding anything: what the API server gives at most."""
    await create(http, [(PODS, pod(f"bare-{n}", "nobody", {})) for n in range(ROUND)])
    bodies = [
        (
            f"{PODS}/bare-{n}/binding",
            {"metadata": {"name": f"bare-{n}"}, "target": {"kind": "Node", "name": node_name(n % NODES, NODES)}},
        )
        for n in range(ROUND)
    ]
    began = time.perf_counter()
    await create(http, bodies)
    return Throughput("bare Binding calls", ROUND, time.perf_counter() - began)


class Candidate:
    """An operator to be measured.

    Parameters
    ----------
    name
        What the table calls it; empty for this checkout.
    process
        How it is run.
    """

    scheduler = "vgpu-scheduler"
    """The name that its pods give."""

    def __init__(self, name: str, process: OperatorProcess) -> None:
        self.name = name
        self._process = process

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it for the time of the block."""
        self._process.start()
        try:
            await self._process.until_leading()
            yield
        finally:
            self._process.stop()

    async def look(self) -> _Look:
        """Return what it says of itself."""
        at, binds, cpu = time.perf_counter(), "vgpu_scheduler_binds_total", "process_cpu_seconds_total"
        _, text = await self._process.get(
            f"/metrics?name[]={binds}&name[]={cpu}"
        )  # all would cost it some ms each time
        return _Look(at, summed(text, binds, result="bound"), summed(text, cpu))


class KubeScheduler:
    """Kubernetes' own scheduler, to be measured with the same pods.

    Parameters
    ----------
    plane
        The control plane that it belongs to.
    """

    scheduler = "default-scheduler"
    name = "kube-scheduler"

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._address = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it for the time of the block."""
        with self._plane.scheduler() as address:
            self._address = address
            yield

    async def look(self) -> _Look:
        """Return what it says of itself; nothing before it serves."""
        at, headers = time.perf_counter(), {"Authorization": f"Bearer {self._plane.token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as http,
                http.get(f"{self._address}/metrics", ssl=False) as answer,
            ):
                text = await answer.text()
        except aiohttp.ClientError:
            return _Look(at, 0.0, 0.0)
        bound = _metric(text, r"scheduler_schedule_attempts_total\{.*result=\"scheduled\".*\}")
        return _Look(at, bound, _metric(text, "process_cpu_seconds_total"))


class Look(Protocol):
    """What is known of a scheduler in a moment."""

    @property
    def bound(self) -> float:
        """How many pods it has bound."""


L = TypeVar("L", bound=Look)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a scheduler says of itself."""

    at: float
    bound: float
    cpu: float


def _metric(text: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name} (\S+)$", text, re.MULTILINE))


async def _through(
    http: aiohttp.ClientSession,
    candidates: Sequence[Candidate | KubeScheduler],
    what: str,
    limits: dict[str, str],
) -> list[Throughput]:
    """Measure each candidate in :data:`TURNS` turns, in their order and back.

    Pods stay, and more on a node cost more: so none has the emptier cluster, nor gains from a machine that steadily
    gets slower or faster.
    """
    turns: dict[str, list[Throughput]] = {}
    for number, candidate in enumerate((*candidates, *reversed(candidates)) * (TURNS // 2)):
        turns.setdefault(candidate.name, []).append(await _once(http, candidate, f"{what} {number}", limits))
    return [
        Throughput(
            what,
            sum(turn.pods for turn in found),
            sum(turn.seconds for turn in found),
            sum(turn.cpu for turn in found),
            whose,
        )
        for whose, found in turns.items()
    ]


async def _once(
    http: aiohttp.ClientSession, candidate: Candidate | KubeScheduler, what: str, limits: dict[str, str]
) -> Throughput:
    """Have pods that wait already bound by a scheduler that starts: the creation of pods takes nothing from it."""
    prefix = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
    await create(http, [(PODS, pod(f"{prefix}-{n}", candidate.scheduler, limits)) for n in range(ROUND)])
    async with candidate.running():
        first, last = await until_bound(candidate.look, f"{what} {candidate.name}", pause=0.05)
    pods = int(last.bound - first.bound)
    return Throughput(what, pods, last.at - first.at, last.cpu - first.cpu, candidate.name)


async def until_bound(look: Callable[[], Awaitable[L]], what: str, *, pause: float) -> tuple[L, L]:
    """Look until a turn's pods are bound; return the look that found :data:`WARM` of them bound, and the last one.

    The start of the process so does not count.

    Parameters
    ----------
    pause
        Seconds between two looks: they cost who is asked time, too.

    Raises
    ------
    TimeoutError
        If they are not bound in time.
    """
    deadline, first = time.perf_counter() + WITHIN, None
    while time.perf_counter() < deadline:
        found = await look()
        first = first or (found if found.bound >= WARM else None)
        if first is not None and found.bound >= ROUND:
            return first, found
        await asyncio.sleep(pause)
    raise TimeoutError(f"{what}: not bound after {WITHIN:.0f} s")


def operators(found: BenchmarkCluster, against: Path | None) -> list[Candidate]:
    """Return the operators to be measured: another checkout's, if there is one, and then this one's."""
    kubeconfig = found.plane.kubeconfig()
    candidates = [Candidate("", OperatorProcess(kubeconfig, found.folder / "operator.log"))]
    if against is not None:
        environment = {"PYTHONPATH": str(against / "operator")}
        other = OperatorProcess(kubeconfig, found.folder / "other.log", environment)
        candidates.insert(0, Candidate("before", other))
    return candidates


async def measure(against: Path | None = None) -> list[Throughput]:
    """Measure everything in one run.

    Parameters
    ----------
    against
        Another checkout, whose operator is measured, too.
    """
    async with cluster(NODES, NODE_SIDE_DELAY) as found:
        ours = operators(found, against)
        everybody: list[Candidate | KubeScheduler] = [KubeScheduler(found.plane), *ours]
        results = [await _bare_bindings(found.http), *await _through(found.http, everybody, PLAIN, {})]
        await found.nodes.start()
        waiting = ROUND * (1 + TURNS * len(everybody))
        await found.nodes.until(lambda: found.nodes.counts["running"] >= waiting, within=TURNS * WITHIN)
        results += await _through(found.http, ours, SLICES, SLICE)
        found.manner.quiet = False
        results += await _through(found.http, ours, SLICES_WITH_ALL_WRITES, SLICE)
        if found.nodes.violations:
            raise RuntimeError(f"the node side objects: {found.nodes.violations[:3]}")
    return results + await _on_many_nodes(against)


async def _on_many_nodes(against: Path | None) -> list[Throughput]:
    """Measure plain pods on a cluster of many nodes, which nobody plays."""
    async with cluster(MANY_NODES) as found:
        everybody: list[Candidate | KubeScheduler] = [KubeScheduler(found.plane), *operators(found, against)]
        return await _through(found.http, everybody, PLAIN_ON_MANY, {})
