"""Pods per second end to end, on a real kube-apiserver and etcd: bare Bindings, plain pods, shared GPUs."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp
from tests.apiserver.control_plane import ControlPlane

from benchmarks.checkouts import BEFORE, OURS, Checkout, Compared, in_turns
from benchmarks.cluster import PODS, SLICE, BenchmarkCluster, cluster, node_name, pod, post, until
from vgpu_devcluster.process import OperatorProcess, summed

NODES = 500
MANY_NODES = 5000
NODE_SIDE_DELAY = 0.02
CONCURRENT = 32
ROUND = 1500
"""Pods of one turn with a lock."""
PLAIN_ROUND = 3000
"""Plain pods of one turn."""
TURNS = 4
"""Turns of each contender."""
WITHIN = 180.0
BARE = "bare Binding calls"
PLAIN = "plain pods, no node lock"
PLAIN_ON_MANY = f"plain pods, no node lock, {MANY_NODES:,} nodes"
SLICES = "slices, node side that releases the lock"
SLICES_WITH_ALL_WRITES = "slices, node side with all its writes"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a candidate: how many pods it bound, in how many seconds, with how many seconds of its CPU.

    Attributes
    ----------
    pods, seconds, cpu
        From the first pod that was seen bound to the last one.
    late_pods, late_seconds
        From a third of them to the last one: without what a scheduler does as it starts, such as filling its caches.
    """

    pods: int
    seconds: float
    cpu: float = 0.0
    late_pods: int = 0
    late_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one candidate did in all of its turns.

    Attributes
    ----------
    what, whose
        Which pods, and which candidate; empty for the operator of this checkout.
    """

    what: str
    whose: str
    turns: Sequence[Turn]

    @property
    def cpu_per_pod(self) -> float:
        """Milliseconds of the scheduler's CPU per pod."""
        return 1000.0 * sum(turn.cpu for turn in self.turns) / sum(turn.pods for turn in self.turns)

    @property
    def rate(self) -> float:
        """Pods per second, whole turns."""
        return sum(turn.pods for turn in self.turns) / sum(turn.seconds for turn in self.turns)

    @property
    def late_rate(self) -> float | None:
        """Pods per second after a third of each turn; ``None`` where nothing starts."""
        seconds = sum(turn.late_seconds for turn in self.turns)
        return sum(turn.late_pods for turn in self.turns) / seconds if seconds else None


async def create(http: aiohttp.ClientSession, requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Post objects to their paths, some at once."""
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(path: str, body: dict[str, Any]) -> None:
        async with gate:
            await post(http, path, body)

    await asyncio.gather(*(one(path, body) for path, body in requests))


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of a turn: how many, and what each asks for."""

    number: int
    limits: Mapping[str, str]


class Contender(Protocol):
    """Whoever binds pods of a name."""

    @property
    def name(self) -> str:
        """What the table calls it; empty for the operator of this checkout."""

    async def turn(self, http: aiohttp.ClientSession, prefix: str, pods: Pods) -> Turn:
        """Bind pods, whose names begin with the prefix."""


class BareBindings:
    """Binds pods with the bare API call, without deciding anything: what the API server gives at most."""

    name = BARE

    async def turn(self, http: aiohttp.ClientSession, prefix: str, pods: Pods) -> Turn:
        """Bind pods to one node after the other."""
        names = [f"{prefix}-{n}" for n in range(pods.number)]
        await create(http, [(PODS, pod(name, "nobody", dict(pods.limits))) for name in names])
        targets = ({"kind": "Node", "name": node_name(n % NODES, NODES)} for n in range(pods.number))
        bodies = [
            (f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
            for name, target in zip(names, targets, strict=True)
        ]
        began = time.perf_counter()
        await create(http, bodies)
        return Turn(pods.number, time.perf_counter() - began)


class Scheduler(ABC):
    """A scheduler to be measured, as a process that is started for each turn.

    Attributes
    ----------
    name
        What tables call it; empty for the operator of this checkout.
    scheduler
        The name that its pods give.
    """

    name: str
    scheduler: str

    @abstractmethod
    def running(self) -> AbstractAsyncContextManager[None]:
        """Run it for the time of the block."""

    @abstractmethod
    async def look(self) -> SchedulerLook:
        """Return what it says of itself."""

    async def turn(self, http: aiohttp.ClientSession, prefix: str, pods: Pods) -> Turn:
        """Have pods that wait already bound: the creation of pods takes nothing from a scheduler."""
        names = (f"{prefix}-{n}" for n in range(pods.number))
        await create(http, [(PODS, pod(name, self.scheduler, dict(pods.limits))) for name in names])
        async with self.running():
            first, third, last = await until_bound(self.look, f"{prefix} {self.name}", pods.number, pause=0.05)
        whole = int(last.bound - first.bound), last.at - first.at, last.cpu - first.cpu
        return Turn(*whole, int(last.bound - third.bound), last.at - third.at)


class Candidate(Scheduler):
    """An operator to be measured.

    Parameters
    ----------
    name
        What the table calls it; empty for this checkout.
    process
        How it is run.
    """

    scheduler = "vgpu-scheduler"

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

    async def look(self) -> SchedulerLook:
        """Return what it says of itself."""
        at, binds, cpu = time.perf_counter(), "vgpu_scheduler_binds_total", "process_cpu_seconds_total"
        _, text = await self._process.get(
            f"/metrics?name[]={binds}&name[]={cpu}"
        )  # all would cost it some ms each time
        return SchedulerLook(at, summed(text, binds, result="bound"), summed(text, cpu))


class KubeScheduler(Scheduler):
    """Kubernetes' own scheduler, to be measured with the same pods.

    Parameters
    ----------
    plane
        The control plane that it belongs to.
    flags
        Those that it is started with beside the usual ones.
    """

    scheduler = "default-scheduler"
    name = "kube-scheduler"

    def __init__(self, plane: ControlPlane, *flags: str) -> None:
        self._plane = plane
        self._flags = flags
        self._address = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it for the time of the block."""
        with self._plane.scheduler(*self._flags) as address:
            self._address = address
            yield

    async def look(self) -> SchedulerLook:
        """Return what it says of itself; nothing before it serves."""
        at, headers = time.perf_counter(), {"Authorization": f"Bearer {self._plane.token}"}
        try:
            async with (
                aiohttp.ClientSession(headers=headers) as http,
                http.get(f"{self._address}/metrics", ssl=False) as answer,
            ):
                text = await answer.text()
        except aiohttp.ClientError:
            return SchedulerLook(at, 0.0, 0.0)
        bound = _metric(text, r"scheduler_schedule_attempts_total\{.*result=\"scheduled\".*\}")
        return SchedulerLook(at, bound, _metric(text, "process_cpu_seconds_total"))


class Look(Protocol):
    """What is known of a scheduler in a moment."""

    @property
    def bound(self) -> float:
        """How many pods it has bound."""


L = TypeVar("L", bound=Look)


@dataclass(frozen=True, slots=True)
class SchedulerLook:
    """What a scheduler says of itself."""

    at: float
    bound: float
    cpu: float


def _metric(text: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name} (\S+)$", text, re.MULTILINE))


async def _through(
    http: aiohttp.ClientSession, contenders: Sequence[Contender], what: str, pods: Pods
) -> list[Throughput]:
    """Measure everybody in :data:`TURNS` turns. Pods stay, and more on a node cost more."""
    turns: dict[str, list[Turn]] = {}
    for number, each in enumerate(in_turns(contenders, TURNS)):
        prefix = re.sub(r"[^a-z0-9]+", "-", f"{what} {number}".lower()).strip("-")
        turns.setdefault(each.name, []).append(await each.turn(http, prefix, pods))
    return [Throughput(what, whose, found) for whose, found in turns.items()]


async def until_bound(look: Callable[[], Awaitable[L]], what: str, pods: int, *, pause: float) -> tuple[L, L, L]:
    """Look until a turn's pods are bound; return the looks that found one of them bound, a third of them, and all.

    Parameters
    ----------
    pods
        How many pods there are.
    pause
        Seconds between two looks: they cost who is asked time, too.

    Raises
    ------
    TimeoutError
        If they are not bound in time.
    """
    marks: list[L] = []

    async def all_bound() -> tuple[L, L, L] | None:
        found = await look()
        while len(marks) < 3 and found.bound >= (1, pods / 3, pods)[len(marks)]:
            marks.append(found)
        return (marks[0], marks[1], marks[2]) if len(marks) == 3 else None

    return await until(all_bound, lambda: f"{what}: not bound after {WITHIN:.0f} s", WITHIN, pause)


def operators(found: BenchmarkCluster, candidates: Sequence[Checkout]) -> list[Candidate]:
    """Return the operators of some checkouts."""
    kubeconfig = found.plane.kubeconfig()

    def process(each: Checkout) -> OperatorProcess:
        log = found.folder / f"operator{each.name}.log"
        return OperatorProcess(kubeconfig, log, each.environment, each.operator)

    return [Candidate(each.name, process(each)) for each in candidates]


async def measure(candidates: Sequence[Checkout] = (OURS,)) -> list[Throughput]:
    """Measure everything in one run."""
    async with cluster(NODES) as found:
        everybody: list[Contender] = [BareBindings(), KubeScheduler(found.plane), *operators(found, candidates)]
        results = await _through(found.http, everybody, PLAIN, Pods(PLAIN_ROUND, {}))
    async with cluster(NODES, NODE_SIDE_DELAY) as found:
        ours = operators(found, candidates)
        await found.nodes.start()
        results += await _through(found.http, ours, SLICES, Pods(ROUND, SLICE))
        found.manner.quiet = False
        results += await _through(found.http, ours, SLICES_WITH_ALL_WRITES, Pods(ROUND, SLICE))
        if found.nodes.violations:
            raise RuntimeError(f"the node side objects: {found.nodes.violations[:3]}")
    async with cluster(MANY_NODES) as found:  # which nobody plays
        many = [KubeScheduler(found.plane), *operators(found, candidates)]
        return results + await _through(found.http, many, PLAIN_ON_MANY, Pods(PLAIN_ROUND, {}))


def compared(found: Sequence[Throughput]) -> Iterator[Compared]:
    """Yield how this checkout compares with the other one, where that was measured."""
    ours = {each.what: each.turns for each in found if not each.whose}
    for each in found:
        if each.whose == BEFORE:
            both = each.turns, ours[each.what]
            yield Compared(
                f"{each.what}: per pod", "ms", *([1e3 * t.seconds / t.pods for t in turns] for turns in both)
            )
            yield Compared(f"{each.what}: CPU", "ms", *([1e3 * t.cpu / t.pods for t in turns] for turns in both))
