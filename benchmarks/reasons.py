"""How soon pods that fit nowhere say why: a burst of them, each asking for another amount, beside kube-scheduler.

``python -m benchmarks.reasons`` measures and writes the table of ``docs/performance.md``. This scheduler's pods ask for
more memory of a card than any has, kube-scheduler's plain pods for more CPU than any node has.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.apiserver.audit import AuditRecord

from benchmarks.checkouts import BEFORE, OURS, Checkout, Compared, arguments, checkouts, comparison, in_turns
from benchmarks.cluster import PODS, BenchmarkCluster, cluster, pod, post, until
from benchmarks.page import publish
from benchmarks.throughput import KubeScheduler, Scheduler, operators

MARK: Final = "<!-- reasons -->"
NODES: Final = 2000
BURST: Final = 1000
"""Pods."""
EVERY: Final = 0.0025
"""Seconds between the creation of two of them."""
WITHIN: Final = 120.0
TURNS: Final = 2
"""Turns of each scheduler."""
_TOO_MUCH_MEMORY: Final = 200_000
"""MiB, more than any card has."""
_TOO_MUCH_CPU: Final = 1_000
"""More than any node has."""


@dataclass(frozen=True, slots=True)
class Told:
    """When the pods of a burst said why they wait.

    Attributes
    ----------
    p50, last
        Seconds from the creation of a pod until its condition: of half of them, and from the first creation until all
        had one.
    cpu
        Seconds of the scheduler's CPU.
    """

    p50: float
    last: float
    cpu: float


def unschedulable_pod(number: int, name: str, scheduler: str) -> dict[str, Any]:
    """Return a pod that fits nowhere; each asks for another amount."""
    if scheduler == KubeScheduler.scheduler:
        asking = pod(name, scheduler, {})
        asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(_TOO_MUCH_CPU + number)}}
        return asking
    return pod(name, scheduler, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(_TOO_MUCH_MEMORY + number)})


def waits_of(records: Sequence[AuditRecord], prefix: str) -> dict[str, tuple[float, float]]:
    """Return when each pod of a burst was created, and when its condition was first written; seconds since 1970.

    Parameters
    ----------
    records
        What the API server answered.
    prefix
        What the names of the pods begin with; pods without a condition are left out.
    """
    created: dict[str, float] = {}
    told: dict[str, float] = {}
    for record in records:
        if record.resource == "pods" and record.name.startswith(prefix) and record.code < 400:
            if record.verb == "create" and not record.subresource:
                created[record.name] = record.received
            elif record.verb == "patch" and record.subresource == "status":
                told.setdefault(record.name, record.answered)
    return {name: (created[name], at) for name, at in told.items()}


async def _burst(found: BenchmarkCluster, candidate: Scheduler, prefix: str) -> Told:
    """Create a burst of pods and wait until all say why they wait; then they go."""
    http, plane = found.http, found.plane

    async def create(number: int) -> None:
        await asyncio.sleep(number * EVERY)
        await post(http, PODS, unschedulable_pod(number, f"{prefix}-{number}", candidate.scheduler))

    async with candidate.running():
        before, mark = await _settled(candidate.look), plane.audit_mark()
        await asyncio.gather(*(create(number) for number in range(BURST)))
        waits: dict[str, tuple[float, float]] = {}

        async def all_told() -> bool | None:
            waits.update(waits_of(plane.audit(since=mark), prefix))
            return len(waits) >= BURST or None

        def failure() -> str:
            missing = next(name for number in range(BURST) if (name := f"{prefix}-{number}") not in waits)
            return f"{candidate.name or 'now'}: {len(waits)} of {BURST} pods say why they wait; {missing} does not"

        await until(all_told, failure, WITHIN, 1.0)
        cpu = (await candidate.look()).cpu - before
    async with http.delete(PODS, json={"gracePeriodSeconds": 0}) as answer:
        await answer.read()
    first = min(created for created, _ in waits.values())
    p50 = statistics.median(told - created for created, told in waits.values())
    return Told(p50, max(told for _, told in waits.values()) - first, cpu)


async def _settled(look: Callable[[], Awaitable[Any]]) -> float:
    """Wait until a scheduler serves and has taken in the cluster; return the CPU that it had used by then."""
    used = 0.0
    while (now := (await look()).cpu) - used > 0.05 or not now:
        used = now
        await asyncio.sleep(1.0)
    return used


async def measure(candidates: Sequence[Checkout] = (OURS,)) -> dict[str, list[Told]]:
    """Measure everybody in turns; return those of each."""
    async with cluster(NODES) as found:
        everybody: list[Scheduler] = [KubeScheduler(found.plane), *operators(found, candidates)]
        turns: dict[str, list[Told]] = {}
        for number, each in enumerate(in_turns(everybody, TURNS)):
            turns.setdefault(each.name, []).append(await _burst(found, each, f"turn-{number}"))
    return turns


def mean_of(turns: Sequence[Told]) -> Told:
    """Return the means of some turns."""
    return Told(*(statistics.mean(getattr(turn, name) for turn in turns) for name in ("p50", "last", "cpu")))


def text(found: dict[str, list[Told]]) -> str:
    """Return the table in Markdown: the means of all turns."""
    lines = [f"| {BURST:,} pods that fit nowhere, {NODES:,} nodes × 8 cards | p50 | all | scheduler's CPU |"]
    lines.append("|---|---|---|---|")
    for whose, turns in found.items():
        mean = mean_of(turns)
        lines.append(f"| {whose or 'now'} | {mean.p50:.2f} s | {mean.last:.1f} s | {mean.cpu:.1f} s |")
    return "\n".join(lines)


def compared(found: dict[str, list[Told]]) -> Iterator[Compared]:
    """Yield how this checkout compares with the other one, where that was measured."""
    if BEFORE in found:
        both = found[BEFORE], found[OURS.name]
        for what, name in (("p50", "p50"), ("all", "last"), ("CPU", "cpu")):
            figures = ([getattr(turn, name) for turn in turns] for turns in both)
            yield Compared(f"a burst that fits nowhere is told: {what}", "s", *figures)


def main() -> None:
    """Measure and write."""
    found = asyncio.run(measure(checkouts(arguments("benchmarks.reasons", __doc__))))
    publish(MARK, text(found))
    print("\n".join(comparison(compared(found))))


if __name__ == "__main__":
    main()
