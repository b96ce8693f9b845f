"""How long it takes to decide groups of pods on 5,000 nodes, without any I/O.

``python -m benchmarks.groups`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.decisions import node
from benchmarks.page import publish
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.runtime.collecting import settle_memory, tune_garbage_collector

MARK: Final = "<!-- groups -->"
NODES: Final = 5000
MEMBERS: Final = 64
GROUPS: Final = 20
GANG: Final = "gang.scheduling.koordinator.sh"


@dataclass(frozen=True, slots=True)
class Row:
    """Quantiles of one kind of attempt, in milliseconds."""

    kind: str
    p50: float
    p99: float


def member(group: str, number: int, cards: int, memory: int, *, alone: bool = False) -> Pod:
    """Return a pod of a group, or one that asks the same by itself."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory)}
    name = f"{group}-{number}"
    notes = {} if alone else {f"{GANG}/name": group, f"{GANG}/min-available": str(MEMBERS)}
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": notes},
            "spec": {
                "schedulerName": "vgpu-scheduler",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "resources": {"limits": limits, "requests": {**limits, "cpu": "1"}}}],
            },
            "status": {"phase": "Pending"},
        }
    )


def attempted(engine: Engine, kind: str, cards: int, memory: int, outcome: Outcome) -> Row:
    """Time attempts of groups, one after the other; what is placed stays."""
    seconds = []
    for number in range(GROUPS):
        for each in range(MEMBERS):
            engine.observe_pod(member(f"{kind}-{number}", each, cards, memory), 0.0)
        began = time.perf_counter()
        decisions = engine.schedule_next(0.0)
        seconds.append(time.perf_counter() - began)
        assert (len(decisions), decisions[0].outcome) == (MEMBERS, outcome), decisions[0].message
    return _row(kind, seconds)


def one_by_one(engine: Engine, kind: str, memory: int) -> Row:
    """Time as many pods that ask the same, each by itself."""
    seconds = []
    for number in range(GROUPS):
        for each in range(MEMBERS):
            engine.observe_pod(member(f"{kind}-{number}", each, 1, memory, alone=True), 0.0)
        began = time.perf_counter()
        for _ in range(MEMBERS):
            decision = engine.attempt(0.0)
            assert decision is not None
            assert decision.placement is not None, decision.message
        seconds.append(time.perf_counter() - began)
    return _row(kind, seconds)


def _row(kind: str, seconds: Sequence[float]) -> Row:
    p50, p99 = np.quantile(np.array(seconds[2:]) * 1e3, (0.5, 0.99))
    return Row(kind, float(p50), float(p99))


def measure(nodes: int = NODES) -> list[Row]:
    """Return a row for each kind of group."""
    tune_garbage_collector()
    engine = Engine(EngineOptions([hami_dialect()]))
    for number in range(nodes):
        engine.observe_node(decode_node(node(number)), 0.0)
    settle_memory()  # as the operator does once it has read everything
    return [
        one_by_one(engine, f"{MEMBERS} pods, each by itself", 8000),
        attempted(engine, f"group of {MEMBERS}", 1, 8000, Outcome.PLACED),
        attempted(engine, f"group of {MEMBERS}, two cards each", 2, 8000, Outcome.PLACED),
        attempted(engine, f"group of {MEMBERS} that fits nowhere", 9, 8000, Outcome.UNSCHEDULABLE),
    ]


def table(rows: Sequence[Row]) -> str:
    """Return the table of the page."""
    lines = [f"| attempt on {NODES:,} nodes | p50 (ms) | p99 (ms) |", "|---|---:|---:|"]
    return "\n".join([*lines, *(f"| {row.kind} | {row.p50:,.1f} | {row.p99:,.1f} |" for row in rows)])


def main() -> None:
    """Measure and write."""
    publish(MARK, table(measure()))


if __name__ == "__main__":
    main()
