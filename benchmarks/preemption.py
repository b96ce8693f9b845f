"""How long it takes to find whose room a pod gets, among 150,000 pods on the cards of 5,000 nodes, without any I/O.

``python -m benchmarks.preemption`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.decisions import node
from benchmarks.page import publish
from vgpu_devcluster import equip
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.policy import decode_policy
from vgpu_scheduler.runtime.collecting import settle_memory, tune_garbage_collector

MARK: Final = "<!-- preemption -->"
NODES, CARDS, PODS_PER_NODE = 5000, 8, 30
SEARCHES: Final = 60
MEMORY: Final = 81920
"""MiB of a card."""
NEW, CHANGED, REPEATED = "new class", "repeated, after one node changed", "repeated class"
TWO_CARDS, PLAIN = "new class of two cards", "new class without cards"


@dataclass(frozen=True, slots=True)
class Search:
    """Quantiles of one kind of search, in milliseconds."""

    kind: str
    p50: float
    p99: float


def tenants(rng: np.random.Generator, number: int) -> Iterator[dict[str, Any]]:
    """Yield the pods of a node: three or four on each card, which they fill but for less than 8 GiB."""
    cards = equip(f"node-{number:05d}", ("A100-80G",) * CARDS)
    for position in range(PODS_PER_NODE):
        card, sharers = cards[position % CARDS], 4 if position % CARDS < PODS_PER_NODE % CARDS else 3
        memory = MEMORY // sharers - int(rng.integers(0, 2000))
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
        name = f"tenant-{number}-{position}"
        yield {
            "metadata": {
                "name": name,
                "namespace": f"team-{position % 7}",
                "uid": name,
                "labels": {"app": f"app-{position}"},
                "annotations": {
                    "hami.io/vgpu-node": f"node-{number:05d}",
                    "hami.io/vgpu-devices-allocated": f"{card.uuid},NVIDIA,{memory},0:;",
                },
            },
            "spec": {
                "schedulerName": "vgpu-scheduler",
                "nodeName": f"node-{number:05d}",
                "priority": int(rng.integers(0, 5)),
                "containers": [{"name": "main", "resources": {"limits": limits, "requests": {**limits, "cpu": "2"}}}],
            },
            "status": {
                "phase": "Running",
                "startTime": f"2026-01-{int(rng.integers(1, 29)):02d}T00:00:{int(rng.integers(0, 60)):02d}Z",
                "containerStatuses": [{"name": "main", "state": {"running": {}}}],
            },
        }


def asking(name: str, *, cards: int = 1, memory: int = 30_000, cpu: str = "1") -> Pod:
    """Return a pod of high priority."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory)} if cards else {}
    resources = {"limits": limits, "requests": {**limits, "cpu": cpu}}
    return decode_pod(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "schedulerName": "vgpu-scheduler",
                "priority": 1000,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "resources": resources}],
            },
            "status": {"phase": "Pending"},
        }
    )


def crowded(nodes: int = NODES) -> Engine:
    """Return an engine that knows a full fleet, and a policy that lets pods preempt others."""
    rng = np.random.default_rng(1)
    engine = Engine(EngineOptions([hami_dialect()], preemption=True))
    policy = {
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "preempts", "uid": "p", "generation": 1, "resourceVersion": "1"},
        "spec": {"preemption": {"mayPreempt": True}},
    }
    engine.policy_tracker.observe(decode_policy(policy))
    for number in range(nodes):
        engine.observe_node(decode_node(node(number)), 0.0)
        for pod in tenants(rng, number):
            engine.observe_pod(decode_pod(pod), 0.0)
    return engine


def searched(engine: Engine, kind: str, pods: Sequence[Pod], before: Callable[[int], None] | None = None) -> Search:
    """Time searches for pods, each after its decision, as an attempt has them."""
    evaluator, seconds = engine.preemptions.evaluator, []
    for number, pod in enumerate(pods):
        engine.state.observe_pod(pod, {})
        if before is not None:
            before(number)
        assert engine.algorithm.decide(pod).placement is None, "the fleet is not full"
        began = time.perf_counter()
        answer = evaluator.search(pod, 0.0)
        seconds.append(time.perf_counter() - began)
        assert answer.preemption is not None, answer.reason
    p50, p99 = np.quantile(np.array(seconds[2:]) * 1e3, (0.5, 0.99))
    return Search(kind, float(p50), float(p99))


def measure(nodes: int = NODES) -> tuple[float, list[Search]]:
    """Return the milliseconds of the first search, which reads all nodes, and the quantiles of those after it."""
    tune_garbage_collector()
    engine = crowded(nodes)
    settle_memory()  # as the operator does once it has read everything
    first = asking("first", memory=29_000)
    engine.state.observe_pod(first, {})
    engine.algorithm.decide(first)
    began = time.perf_counter()
    engine.preemptions.evaluator.search(first, 0.0)
    reading = (time.perf_counter() - began) * 1e3

    def change(number: int) -> None:
        engine.remove_pod(f"tenant-{number}-0", 0.0)

    return reading, [
        searched(engine, NEW, [asking(f"new-{n}", memory=30_000 + n) for n in range(SEARCHES)]),
        searched(engine, REPEATED, [asking(f"repeated-{n}") for n in range(SEARCHES)]),
        searched(engine, CHANGED, [asking(f"changed-{n}") for n in range(SEARCHES)], change),
        searched(engine, TWO_CARDS, [asking(f"two-{n}", cards=2, memory=30_000 + n) for n in range(8)]),
        searched(engine, PLAIN, [asking(f"plain-{n}", cards=0, cpu=f"{20_000 + n}m") for n in range(8)]),
    ]


def table(reading: float, found: Sequence[Search]) -> str:
    """Return the table of the page."""
    lines = [
        f"| search among {NODES * PODS_PER_NODE:,} pods on {NODES:,} nodes | p50 (ms) | p99 (ms) |",
        "|---|---:|---:|",
        f"| the first one, which reads who is on which card | {reading:,.0f} | |",
        *(f"| {each.kind} | {each.p50:,.2f} | {each.p99:,.2f} |" for each in found),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    publish(MARK, table(*measure()))


if __name__ == "__main__":
    main()
