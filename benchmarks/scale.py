"""What grows with the cluster, without an API server: taking in events, decisions, memory.

``python -m benchmarks.scale`` writes the table to docs/performance.md. Each size runs in a process of its own.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cluster import registered_node
from benchmarks.footprint import bound_pod, resident
from benchmarks.page import publish
from benchmarks.replay import NAME, new_engine
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import Outcome

MARK = "<!-- scale -->"
SIZES = ((5_000, 25_000), (10_000, 50_000), (20_000, 100_000))
"""Nodes and the pods that are bound to them."""
_EVENTS = 2_000
_NEW = 60
_REPEATED = 1_000


@dataclass(frozen=True, slots=True)
class Growth:
    """What a cluster of one size costs.

    Attributes
    ----------
    node, pod
        Microseconds to take in one that is new.
    node_event, pod_event
        Microseconds to take in that one changed.
    repeated, new
        Microseconds of a decision, half of them: of a repeated and of a new class.
    audit
        Milliseconds to compare the ledger of all nodes with its rebuild.
    memory
        MiB that are resident, without what the program takes by itself.
    """

    nodes: int
    pods: int
    node: float
    pod: float
    node_event: float
    pod_event: float
    repeated: float
    new: float
    audit: float
    memory: float


def _node(number: int, nodes: int, version: int = 1) -> bytes:
    return json.dumps(registered_node(number, nodes, version)).encode()


def _pod(number: int, nodes: int, version: int = 1) -> bytes:
    obj = bound_pod(number, nodes)
    obj["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(version)}
    obj["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    return json.dumps(obj).encode()


def _waiting(number: int, *, distinct: bool) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(1024 + number * distinct)}
    name = f"{'new' if distinct else 'repeated'}-{number}"
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": NAME, "containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def _mean(work: Callable[[bytes], object], objects: Iterable[bytes]) -> float:
    """Return the mean time of some work, microseconds; what it works on is made outside of that."""
    spent, count = 0.0, 0
    for obj in objects:
        began = time.perf_counter()
        work(obj)
        spent += time.perf_counter() - began
        count += 1
    return spent / count * 1e6


def _half(engine: Engine, count: int, *, distinct: bool) -> float:
    """Return the median time of a decision, microseconds; each placement is assumed before the next one."""
    samples = []
    for number in range(count):
        engine.observe_pod(decode_pod(_waiting(number, distinct=distinct)), 0.0)
        began = time.perf_counter()
        decision = engine.attempt(0.0)
        samples.append((time.perf_counter() - began) * 1e6)
        assert decision is not None
        assert decision.outcome is Outcome.PLACED, decision.message
    return float(np.median(samples[5:]))


def measure(nodes: int, pods: int) -> Growth:
    """Measure one size."""
    engine = new_engine()
    state = engine.state
    before, _ = resident("self")
    node = _mean(lambda obj: engine.observe_node(decode_node(obj), 0.0), (_node(n, nodes) for n in range(nodes)))
    pod = _mean(lambda obj: engine.observe_pod(decode_pod(obj), 0.0), (_pod(n, nodes) for n in range(pods)))
    gc.collect()
    after, _ = resident("self")
    gc.freeze()
    again = range(0, nodes, max(nodes // _EVENTS, 1))
    node_event = _mean(lambda obj: engine.observe_node(decode_node(obj), 0.0), (_node(n, nodes, 2) for n in again))
    again = range(0, pods, max(pods // _EVENTS, 1))
    pod_event = _mean(lambda obj: engine.observe_pod(decode_pod(obj), 0.0), (_pod(n, nodes, 2) for n in again))
    repeated = _half(engine, _REPEATED, distinct=False)
    new = _half(engine, _NEW, distinct=True)
    began = time.perf_counter()
    assert not state.drift()
    audited = time.perf_counter()
    assert not state.over_capacity()
    audit = (audited - began) * 1e3
    return Growth(nodes, pods, node, pod, node_event, pod_event, repeated, new, audit, after - before)


def text(found: Sequence[Growth]) -> str:
    """Return the table in Markdown."""
    first, last = found[0], found[-1]
    sizes = " | ".join(f"{each.nodes:,} nodes, {each.pods:,} pods" for each in found)
    lines = [
        f"| without an API server | {sizes} | growth |",
        "|---" * (2 + len(found)) + "|",
    ]
    for what, name, unit in (
        ("a new node", "node", "µs"),
        ("a new pod", "pod", "µs"),
        ("an event of a node", "node_event", "µs"),
        ("an event of a pod", "pod_event", "µs"),
        ("decision, repeated class, p50", "repeated", "µs"),
        ("decision, new class, p50", "new", "µs"),
        ("comparing the ledger with its rebuild", "audit", "ms"),
        ("memory of it all", "memory", "MiB"),
    ):
        values = " | ".join(f"{getattr(each, name):,.0f} {unit}" for each in found)
        lines.append(f"| {what} | {values} | {getattr(last, name) / getattr(first, name):.1f} times |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    measure(100, 100)  # kernels are compiled before the processes are made
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        publish(MARK, text([pool.apply(measure, size) for size in SIZES]))


if __name__ == "__main__":
    main()
