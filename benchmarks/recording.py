"""What it costs the leader to write the log of what happens: ``python -m benchmarks.recording``.

The same operator binds bursts of pods with the log and without it, in turns, on a real kube-apiserver and etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.checkouts import OURS, in_turns
from benchmarks.cluster import SLICE, cluster
from benchmarks.page import publish
from benchmarks.throughput import NODE_SIDE_DELAY, NODES, PLAIN_ROUND, ROUND, Candidate, Pods, Throughput, Turn
from vgpu_devcluster.process import OperatorProcess

MARK: Final = "<!-- recording -->"
TURNS: Final = 6
"""Turns of each."""
WITHOUT: Final = "without the log"
WITH: Final = "with the log"


async def _bursts(what: str, pods: Pods) -> tuple[list[Throughput], float]:
    """Measure one kind of pods; return what both did, and the MiB of the log."""
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
                    kubeconfig,
                    found.folder / f"{name}.log",
                    {**OURS.environment, **environment},
                    OURS.operator,
                ),
            )
            for name, environment in settings.items()
        ]
        turns: dict[str, list[Turn]] = {WITHOUT: [], WITH: []}
        for number, each in enumerate(in_turns(candidates, TURNS)):
            turns[each.name].append(await each.turn(found.http, f"{what.replace(' ', '-')}-{number}", pods))
        if found.nodes.violations:
            raise RuntimeError(f"the node side saw violations: {found.nodes.violations[:3]}")
        return [Throughput(what, whose, took) for whose, took in turns.items()], _megabytes(folder)


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


async def measure() -> str:
    """Measure, and return the table in Markdown."""
    head = ("the leader's CPU per pod", WITHOUT, WITH, "more", "KiB of log per pod")
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    for what, pods in (("slice", Pods(ROUND, SLICE)), ("plain pod", Pods(PLAIN_ROUND, {}))):
        (without, with_), megabytes = await _bursts(what, pods)
        more = 100.0 * (with_.cpu_per_pod / without.cpu_per_pod - 1.0)
        size = 1024.0 * megabytes / (TURNS * pods.number)
        rows.append(
            (what, f"{without.cpu_per_pod:.2f} ms", f"{with_.cpu_per_pod:.2f} ms", f"{more:+.1f} %", f"{size:.2f}")
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measure and write."""
    OURS.compile_kernels()
    publish(MARK, asyncio.run(measure()))


if __name__ == "__main__":
    main()
