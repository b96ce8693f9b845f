"""How long a pod waits on an idle cluster: from its creation until a watch shows it bound, one pod after the other."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from tests.apiserver.audit import AuditRecord

from benchmarks.checkouts import BEFORE, OURS, Checkout, Compared, in_turns
from benchmarks.cluster import PODS, SLICE, cluster, following_pods, node_name, pod, post
from benchmarks.throughput import BARE, NODES, Candidate, KubeScheduler, operators

ROUND: Final = 80
"""Pods of one turn that count."""
TURNS: Final = 2
"""Turns of everybody."""
WARM: Final = 20
"""Pods before it that do not count."""
PAUSE: Final = 0.02
"""Seconds between two pods: what the last one left to do is over by then."""
WITHIN: Final = 30.0
PLAIN, SLICES = "plain pod", "slice"

STEPS: Final = (
    "API server: creates the pod",
    "operator: sees it and decides",
    "API server: takes the lock",
    "operator: checks again",
    "API server: binds",
)
"""What the time from the creation to the answer of the Binding consists of, for a slice with a node lock."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long pods waited.

    Attributes
    ----------
    what, whose
        Which pods, and whose; empty for the operator of this checkout.
    p50, p99
        Milliseconds, of all turns together.
    turns
        Milliseconds, the median of each turn.
    """

    what: str
    whose: str
    p50: float
    p99: float
    turns: Sequence[float]


@dataclass(frozen=True, slots=True)
class Latencies:
    """One run.

    Attributes
    ----------
    found
        The measurements.
    steps
        Milliseconds of each of :data:`STEPS`, the median over the slices of this checkout's operator.
    """

    found: Sequence[Latency]
    steps: Sequence[float]


class _Bound:
    """Follows the pods of a cluster, and tells when one is bound."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._waits: dict[str, asyncio.Future[float]] = {}

    def following(self) -> AbstractAsyncContextManager[None]:
        """Follow for the time of the block."""
        return following_pods(self._http, self._take)

    def _take(self, event: dict[str, Any]) -> None:
        found = event["object"]
        if found["spec"].get("nodeName"):
            waiting = self._waits.pop(found["metadata"]["name"], None)
            if waiting is not None:
                waiting.set_result(time.perf_counter())

    def of(self, name: str) -> asyncio.Future[float]:
        """Return when a pod will have been bound (seconds, as of ``perf_counter``)."""
        self._waits[name] = asyncio.get_running_loop().create_future()
        return self._waits[name]


async def _waits(
    http: aiohttp.ClientSession, bound: _Bound, prefix: str, scheduler: str, limits: dict[str, str]
) -> list[float]:
    """Create one pod after the other; return for how many milliseconds each waited.

    An empty name of a scheduler has this process bind the pods, without deciding anything.
    """
    found = []
    for number in range(WARM + ROUND):
        name = f"{prefix}-{number}"
        when, began = bound.of(name), time.perf_counter()
        await post(http, PODS, pod(name, scheduler or "nobody", limits))
        if not scheduler:
            node = {"kind": "Node", "name": node_name(number % NODES, NODES)}
            await post(http, f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": node})
        found.append(1000.0 * (await asyncio.wait_for(when, WITHIN) - began))
        await asyncio.sleep(PAUSE)
    return found[WARM:]


def _latency(what: str, whose: str, turns: Sequence[Sequence[float]]) -> Latency:
    hundredths = statistics.quantiles([each for turn in turns for each in turn], n=100)
    return Latency(what, whose, hundredths[49], hundredths[98], [statistics.median(turn) for turn in turns])


async def measure(candidates: Sequence[Checkout] = (OURS,)) -> Latencies:
    """Measure everybody in turns on one cluster."""
    async with cluster(NODES) as found:
        await found.nodes.start()
        http, plane, bound = found.http, found.plane, _Bound(found.http)
        waits: dict[tuple[str, str], list[list[float]]] = {}
        steps: list[tuple[float, ...]] = []

        async def create(what: str, whose: str, scheduler: str) -> None:
            prefix = f"pod-{sum(map(len, waits.values()))}"
            limits = SLICE if what == SLICES else {}
            waits.setdefault((what, whose), []).append(await _waits(http, bound, prefix, scheduler, limits))

        everybody = [None, KubeScheduler(plane), *operators(found, candidates)]
        async with bound.following():
            for each in in_turns(everybody, TURNS):
                if each is None:
                    await create(BARE, BARE, "")
                    continue
                async with each.running():
                    await create(PLAIN, each.name, each.scheduler)
                    if isinstance(each, Candidate):
                        mark = plane.audit_mark()
                        await create(SLICES, each.name, each.scheduler)
                        if each.name == OURS.name:
                            steps.append(steps_of(plane.audit(since=mark), WARM))
        medians = tuple(map(statistics.mean, zip(*steps, strict=True)))
        return Latencies([_latency(*key, turns) for key, turns in waits.items()], medians)


def steps_of(records: Sequence[AuditRecord], warm: int = 0) -> tuple[float, ...]:
    """Return how many milliseconds each of :data:`STEPS` took, the median over the slices of a log.

    One pod at a time is created, so that what follows is about it.

    Parameters
    ----------
    warm
        So many slices at the beginning do not count.
    """
    taken: list[list[float]] = [[] for _ in STEPS]
    created = locked = None
    for record in sorted(records, key=lambda each: each.answered):
        of_pods = record.resource == "pods" and record.verb == "create"
        if of_pods and not record.subresource:
            created, locked = record, None
        elif created and record.resource == "nodes" and record.verb == "patch" and "scheduler" in record.user_agent:
            locked = locked or record
        elif of_pods and record.subresource == "binding" and created and locked:
            marks = (created.received, created.answered, locked.received, locked.answered, record.received)
            for step, begin, end in zip(taken, marks, (*marks[1:], record.answered), strict=True):
                step.append(1000.0 * (end - begin))
            created = None
    return tuple(statistics.median(step[warm:] or [0.0]) for step in taken)


def table(run: Latencies) -> list[str]:
    """Return the table in Markdown, line by line."""
    lines = [f"| from the creation to bound, idle cluster, {NODES} nodes | p50 | p99 |", "|---|---|---|"]
    for each in run.found:
        what = f"{each.what} ({each.whose})" if each.whose not in {OURS.name, BARE} else each.what
        lines.append(f"| {what} | {each.p50:.1f} ms | {each.p99:.1f} ms |")
    return lines


def compared(run: Latencies) -> Iterator[Compared]:
    """Yield how this checkout compares with the other one, where that was measured."""
    ours = {each.what: each.turns for each in run.found if each.whose == OURS.name}
    for each in run.found:
        if each.whose == BEFORE:
            yield Compared(f"idle cluster, {each.what}: from the creation to bound", "ms", each.turns, ours[each.what])
