"""What a freed card costs while many pods wait that all ask for something else, without any I/O.

``python -m benchmarks.waiting`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.cluster import node_name
from benchmarks.decisions import NAME
from benchmarks.page import write_between
from vgpu_scheduler.devcluster import equip, registration
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

MARK: Final = "<!-- waiting -->"
NODES: Final = 5000
CARDS: Final = ("A100-80G",) * 8
_USED: Final = 61_920
"""MiB of each card that a pod holds which has all cards of its node."""
_LEAST: Final = 21_000
"""MiB that the pod asks for that asks for least, more than is free of any card."""
FREED: Final = 200
"""Nodes whose cards become free within a second."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What it costs while so many pods wait.

    Attributes
    ----------
    pods
        How many wait, each for another amount.
    first
        Milliseconds of CPU to find that one of them fits nowhere.
    placed
        Milliseconds of CPU from the moment that the cards of a node become free until a pod is placed on one.
    rest
        Milliseconds of CPU until all others know that there is nothing for them.
    burst
        Seconds of CPU for :data:`FREED` nodes, of which the cards become free in one second.
    """

    pods: int
    first: float
    placed: float
    rest: float
    burst: float


def _pod(name: str, memory: int, cards: int = 1) -> Pod:
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory)}
    spec: dict[str, Any] = {
        "schedulerName": NAME,
        "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
    }
    metadata = {"name": name, "namespace": "default", "uid": name}
    return decode_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


def _drain(engine: Engine, now: float) -> int:
    """Decide until nobody is active; return how many pods were placed."""
    placed = 0
    while (decision := engine.attempt(now)) is not None:
        placed += decision.placement is not None
    return placed


def _full_cluster() -> Engine:
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(), [NAME]))
    for number in range(NODES):
        name = node_name(number, NODES)
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(10 * len(CARDS))}
        annotations = {"hami.io/node-nvidia-register": registration(equip(name, CARDS))}
        node = {"metadata": {"name": name, "uid": name, "annotations": annotations}}
        engine.observe_node(decode_node({**node, "status": {"allocatable": allocatable}}), 0.0)
    for number in range(NODES):
        engine.observe_pod(_pod(f"holder-{number}", _USED, len(CARDS)), 0.0)
    assert _drain(engine, 0.0) == NODES
    return engine


def measure(pods: int) -> Waiting:
    """Measure while so many pods wait."""
    engine = _full_cluster()
    began = time.process_time()
    for number in range(pods):
        engine.observe_pod(_pod(f"waits-{number}", _LEAST + number), 1.0)
    assert not _drain(engine, 1.0)
    first = (time.process_time() - began) / pods
    now = 1000.0
    began = time.process_time()
    engine.remove_pod("holder-0", now)
    decision = engine.attempt(now)
    placed = time.process_time() - began
    assert decision is not None
    assert decision.placement is not None
    began = time.process_time()
    _drain(engine, now)
    rest = time.process_time() - began
    began = time.process_time()
    for number in range(1, FREED + 1):
        now += 1.0 / FREED
        engine.remove_pod(f"holder-{number}", now)
        for _ in CARDS:
            engine.attempt_unit(now, most_looks=32)
    _drain(engine, now)
    return Waiting(pods, 1e3 * first, 1e3 * placed, 1e3 * rest, time.process_time() - began)


def text(found: list[Waiting]) -> str:
    """Return the table in Markdown."""
    columns = (
        "first attempt",
        "a node is freed: until the first is placed",
        "until all know",
        f"{FREED} nodes in a second",
    )
    lines = [
        f"| pods that wait, {NODES:,} nodes × {len(CARDS)} cards | {' | '.join(columns)} |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.pods:,} | {each.first:.1f} ms | {each.placed:.1f} ms | {each.rest:,.0f} ms | {each.burst:.2f} s |"
        for each in found
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    measured = text([measure(pods) for pods in (32, 200, 2000)])
    sys.stdout.write(measured + "\n")
    write_between(MARK, measured)


if __name__ == "__main__":
    main()
