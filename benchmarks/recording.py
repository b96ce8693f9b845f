"""What it costs the leader to write the log of what happens: ``python -m benchmarks.recording``.

The same operator binds bursts of pods with the log and without it, in turns, on a real kube-apiserver and etcd. What it
costs to begin a file, with all that is there, is measured apart from what each pod costs: a file lasts for hours.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.checkouts import OURS, in_turns
from benchmarks.cluster import PODS, SLICE, cluster, pod
from benchmarks.page import publish
from benchmarks.throughput import (
    NODE_SIDE_DELAY,
    NODES,
    PLAIN_ROUND,
    ROUND,
    Candidate,
    Pods,
    SchedulerLook,
    create,
    until_bound,
)
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.runtime.recorder import PACE

MARK: Final = "<!-- recording -->"
TURNS: Final = 8
"""Turns of each."""
_IDLE_FOR: Final = PACE + 1.0
"""Seconds within which what was taken in is written, unless that takes CPU for longer."""
_IDLE_BELOW: Final = 0.05
"""The share of a core below which a process counts as idle."""
_IDLE_WITHIN: Final = 120.0
"""Seconds within which a leader becomes idle."""
WITHOUT: Final = "without the log"
WITH: Final = "with the log"


@dataclass(frozen=True, slots=True)
class LogTurn:
    """What the operator used in one turn.

    Attributes
    ----------
    objects
        The pods and nodes that were there when it started.
    start
        Seconds of CPU from the start of the process until it is idle, with the first file of the log.
    per_pod
        Milliseconds of CPU per pod that came then, until it is bound, and the log has it.
    """

    objects: int
    start: float
    per_pod: float


@dataclass(frozen=True, slots=True)
class LogCost:
    """What both used for one kind of pods, and how large the log is."""

    what: str
    turns: Mapping[str, Sequence[LogTurn]]
    kib_per_pod: float

    def per_pod(self, whose: str) -> float:
        """Milliseconds of CPU per pod: the median of the turns."""
        return statistics.median(turn.per_pod for turn in self.turns[whose])

    @property
    def more(self) -> Sequence[float]:
        """How many percent more each turn with the log took than the one without it beside it, in rising order."""
        pairs = zip(self.turns[WITH], self.turns[WITHOUT], strict=True)
        return sorted(100.0 * (with_.per_pod / without.per_pod - 1.0) for with_, without in pairs)

    @property
    def per_object(self) -> float:
        """Microseconds of CPU for each object that is there when a file begins."""
        pairs = list(zip(self.turns[WITH], self.turns[WITHOUT], strict=True))
        more = sum(with_.start - without.start for with_, without in pairs)
        return 1e6 * more / sum(with_.objects for with_, _ in pairs)


async def _until_idle(candidate: Candidate) -> SchedulerLook:
    """Wait until a leader has nothing more to do: a file is begun in a thread, for seconds where there is much."""
    async with asyncio.timeout(_IDLE_WITHIN):
        before = await candidate.look()
        while True:
            await asyncio.sleep(_IDLE_FOR)
            now = await candidate.look()
            if now.cpu - before.cpu < _IDLE_BELOW * _IDLE_FOR:
                return now
            before = now


async def _turn(http: aiohttp.ClientSession, candidate: Candidate, prefix: str, pods: Pods, there: int) -> LogTurn:
    """Have pods come to a leader that has begun its log, and be bound."""
    async with candidate.running():
        began = await _until_idle(candidate)
        names = (f"{prefix}-{number}" for number in range(pods.number))
        await create(http, [(PODS, pod(name, candidate.scheduler, dict(pods.limits))) for name in names])
        await until_bound(candidate.look, f"{prefix} {candidate.name}", pods.number, pause=0.25)
        ended = await _until_idle(candidate)
    return LogTurn(there, began.cpu, 1000.0 * (ended.cpu - began.cpu) / pods.number)


async def _bursts(what: str, pods: Pods) -> LogCost:
    """Measure one kind of pods."""
    async with cluster(NODES, NODE_SIDE_DELAY) as found:
        if pods.limits:
            await found.nodes.start()
        folder = found.folder / "history"
        folder.mkdir()
        settings: dict[str, Mapping[str, str]] = {WITHOUT: {}, WITH: {"VGPU_HISTORY__DIRECTORY": str(folder)}}
        kubeconfig = found.plane.kubeconfig()
        candidates = [
            Candidate(
                name,
                OperatorProcess(
                    kubeconfig, found.folder / f"{name}.log", {**OURS.environment, **environment}, OURS.operator
                ),
            )
            for name, environment in settings.items()
        ]
        turns: dict[str, list[LogTurn]] = {WITHOUT: [], WITH: []}
        for number, each in enumerate(in_turns(candidates, TURNS)):
            prefix, there = f"{what.replace(' ', '-')}-{number}", NODES + number * pods.number
            turns[each.name].append(await _turn(found.http, each, prefix, pods, there))
        if found.nodes.violations:
            raise RuntimeError(f"the node side saw violations: {found.nodes.violations[:3]}")
        return LogCost(what, turns, 1024.0 * _megabytes(folder) / (TURNS * pods.number))


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


async def measure() -> str:
    """Measure, and return the table in Markdown."""
    head = (
        "the leader's CPU per pod", WITHOUT, WITH, "more, median", "lowest to highest turn", "KiB of log per pod",
        "to begin a file, per object",
    )  # fmt: skip
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    for what, pods in (("slice", Pods(ROUND, SLICE)), ("plain pod", Pods(PLAIN_ROUND, {}))):
        cost = await _bursts(what, pods)
        more = cost.more
        rows.append((
            what, f"{cost.per_pod(WITHOUT):.2f} ms", f"{cost.per_pod(WITH):.2f} ms",
            f"{statistics.median(more):+.1f} %", f"{more[0]:+.1f} to {more[-1]:+.1f} %", f"{cost.kib_per_pod:.2f}",
            f"{cost.per_object:.0f} µs",
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure and write."""
    OURS.compile_kernels()
    publish(MARK, asyncio.run(measure()))


if __name__ == "__main__":
    main()
