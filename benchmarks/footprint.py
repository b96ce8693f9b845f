"""Memory, the time of the start and the cost of relists on a large cluster, of the operator as a process.

The cluster is as large as the aim says: nodes with cards registered, and pods that are bound to them, half of them with
slices that this scheduler allocated, half of them plain ones of another scheduler.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
from tests.apiserver.audit import AuditRecord
from tests.apiserver.control_plane import ControlPlane

from benchmarks.checkouts import BEFORE, OURS, Checkout, Compared, arguments, checkouts, comparison, in_turns
from benchmarks.cluster import CARDS, cluster, node_name, pod, post, until
from benchmarks.page import publish
from vgpu_devcluster import equip
from vgpu_devcluster.process import OperatorProcess

MARK = "<!-- footprint -->"
NODES = 5000
PODS = 20_000
SWEEP_INTERVAL = 15
"""Seconds; by default it is five minutes."""
RELISTS = 3
TURNS = 2
"""Turns of each checkout."""
_NAMESPACES = 20
_REPLICAS = 40
"""Pods of one Deployment."""
_AT_ONCE = 32
_WITHIN = 300.0
_MIB = 1024.0

STEPS = (
    "imports and kernels",
    "lists, until it holds the Lease",
    "lists of what the last leader did, until it has decided",
    "the Binding",
)
"""What the start consists of."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an operator needs on a large cluster, in one turn.

    Attributes
    ----------
    whose
        Which checkout's it is; empty for this one's.
    start
        Seconds from the start of its process until a pod that had waited is bound.
    steady, peak
        MiB that are resident after some relists, and at most.
    relist_cpu
        Seconds of the operator's CPU per relist.
    relist_server_cpu
        Seconds of the API server's CPU per relist.
    steps
        Seconds of each of :data:`STEPS`.
    """

    whose: str
    start: float
    steady: float
    peak: float
    relist_cpu: float
    relist_server_cpu: float
    steps: tuple[float, ...]


def bound_pod(number: int, nodes: int) -> dict[str, Any]:
    """Return a pod that a Deployment made, bound to one of so many nodes: each other one has a slice of a card."""
    deployment, node = number // _REPLICAS, number % nodes
    app = f"service-{deployment:04d}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-7d9c5b8f6d",
        "uid": f"00000000-0000-4000-8000-{deployment:012d}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    slices = number % 2 == 0
    annotations = {"example.com/config-digest": f"{deployment:064x}"}
    resources: dict[str, Any] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    if slices:
        card = equip(node_name(node, nodes), CARDS)[number // nodes % len(CARDS)].uuid
        annotations |= {
            "hami.io/vgpu-devices-allocated": f"{card},NVIDIA,4096,10:;",
            "hami.io/vgpu-node": node_name(node, nodes),
            "hami.io/vgpu-time": "1760000000",
            "hami.io/bind-phase": "success",
        }
        resources["limits"] = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "10"}
    environment = [{"name": f"SETTING_{key}", "value": f"value-{key}"} for key in range(8)]
    return {
        "metadata": {
            "name": f"{app}-7d9c5b8f6d-{number % _REPLICAS:05d}",
            "namespace": f"team-{deployment % _NAMESPACES}",
            "labels": {"app": app, "tier": "inference", "pod-template-hash": "7d9c5b8f6d"},
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": "vgpu-scheduler" if slices else "default-scheduler",
            "nodeName": node_name(node, nodes),
            "containers": [
                {"name": "main", "image": f"registry.example/{app}:1.0", "resources": resources, "env": environment}
            ],
        },
    }


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(PODS):
        pod = bound_pod(number, NODES)
        yield f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod


async def _populate(http: aiohttp.ClientSession) -> None:
    waiting = _pods()

    async def worker() -> None:
        for path, body in waiting:
            await post(http, path, body)

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


def resident(process: int | str) -> tuple[float, float]:
    """Return how many MiB of a process are resident, and how many were at most; ``self`` is this one."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    now, most = (float(lines[name].split()[0]) / _MIB for name in ("VmRSS", "VmHWM"))
    return now, most


def cpu(process: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(candidates: Sequence[Checkout] = (OURS,)) -> list[Footprint]:
    """Measure on one cluster, in turns; return one for each turn."""
    async with cluster(NODES) as large:
        plane, http, folder = large.plane, large.http, large.folder
        for number in range(_NAMESPACES):
            plane.create_namespace(f"team-{number}", exist_ok=True)
        await _populate(http)
        found = []
        for number, candidate in enumerate(in_turns(candidates, TURNS)):
            # A plain pod: it waits for no lock of a node.
            await post(http, "/api/v1/namespaces/team-0/pods", pod(f"waits-{number}", "vgpu-scheduler", {}))
            environment = {
                **candidate.environment,
                "VGPU_SWEEP_INTERVAL": str(SWEEP_INTERVAL),
                "VGPU_DEBUG_ENDPOINTS": "false",
            }
            log = folder / f"operator-{number}.log"
            process = OperatorProcess(plane.kubeconfig(), log, environment, candidate.operator)
            found.append(await _one(candidate.name, process, plane))
        return found


async def _one(whose: str, process: OperatorProcess, plane: ControlPlane) -> Footprint:
    mark, began_at, began = plane.audit_mark(), time.time(), time.perf_counter()
    process.start()
    try:
        await _until_bound(process)
        start = time.perf_counter() - began
        steps = steps_of(plane.audit(since=mark), began_at)
        await asyncio.sleep(5.0)  # what comes in with the start settles
        before, server_before, at = cpu(process.pid), cpu(plane.server_pid), time.perf_counter()
        await asyncio.sleep(SWEEP_INTERVAL * RELISTS)
        relists = (time.perf_counter() - at) / SWEEP_INTERVAL
        steady, peak = resident(process.pid)
        used, server_used = cpu(process.pid) - before, cpu(plane.server_pid) - server_before
        return Footprint(whose, start, steady, peak, used / relists, server_used / relists, steps)
    finally:
        process.stop()


def steps_of(records: Sequence[AuditRecord], began: float) -> tuple[float, ...]:
    """Return how many seconds each of :data:`STEPS` took, by the requests of an operator.

    Parameters
    ----------
    records
        What the API server answered from the start of the operator until it had bound a pod.
    began
        When it was started, in seconds since 1970.
    """
    # The watches of an operator before it are logged once they end.
    ours = [each for each in records if each.user_agent.startswith("vgpu-scheduler/") and each.received >= began]
    asked = min(each.received for each in ours)
    held = min(each.answered for each in ours if each.resource == "leases" and each.verb in ("create", "update"))
    binding = next(each for each in ours if each.subresource == "binding")
    marks = (began, asked, held, binding.received, binding.answered)
    return tuple(end - begin for begin, end in pairwise(marks))


async def _until_bound(process: OperatorProcess) -> None:
    """Wait until the pod that waits is bound: a leader learns first what the last one did."""

    async def bound() -> float | None:
        return await process.metric("vgpu_scheduler_binds_total", result="bound") or None

    await until(bound, lambda: f"the operator binds nothing:\n{process.log[-2000:]}", _WITHIN, 0.02, process)


def text(found: Sequence[Footprint]) -> str:
    """Return the table in Markdown: the means of all turns, and what was resident at most."""
    cluster = f"{NODES:,} nodes × {len(CARDS)} cards, {PODS:,} pods"
    columns = ("start until a pod is bound", "resident, steady", "at most", "CPU of a relist", "the API server's")
    lines = [f"| {' | '.join((cluster, *columns))} |", "|---" * (1 + len(columns)) + "|"]
    means = {whose: mean_of(found, whose) for whose in dict.fromkeys(each.whose for each in found)}
    for name, each in means.items():
        lines.append(
            f"| {name or 'now'} | {each.start:.1f} s | {each.steady:,.0f} MiB | {each.peak:,.0f} MiB"
            f" | {each.relist_cpu:.2f} s | {each.relist_server_cpu:.2f} s |"
        )
    names = [name or "now" for name in means]
    lines += ["", f"| {' | '.join(('the start, step by step', *names))} |", "|---" * (1 + len(names)) + "|"]
    for number, step in enumerate(STEPS):
        lines.append(f"| {' | '.join((step, *(f'{each.steps[number]:.1f} s' for each in means.values())))} |")
    return "\n".join(lines)


def mean_of(found: Sequence[Footprint], whose: str) -> Footprint:
    """Return the means of all turns of a checkout, and what was resident at most."""
    turns = [each for each in found if each.whose == whose]
    return Footprint(
        whose,
        statistics.mean(turn.start for turn in turns),
        statistics.mean(turn.steady for turn in turns),
        max(turn.peak for turn in turns),
        statistics.mean(turn.relist_cpu for turn in turns),
        statistics.mean(turn.relist_server_cpu for turn in turns),
        tuple(map(statistics.mean, zip(*(turn.steps for turn in turns), strict=True))),
    )


def compared(found: Sequence[Footprint]) -> Iterator[Compared]:
    """Yield how this checkout compares with the other one, where that was measured."""
    theirs, ours = ([each for each in found if each.whose == whose] for whose in (BEFORE, OURS.name))
    figures = (
        ("start", "s", "start"),
        ("resident, steady", "MiB", "steady"),
        ("resident, at most", "MiB", "peak"),
        ("CPU of a relist", "s", "relist_cpu"),
        ("the API server's CPU of a relist", "s", "relist_server_cpu"),
    )
    for what, unit, name in figures if theirs else ():
        both = ([getattr(turn, name) for turn in turns] for turns in (theirs, ours))
        yield Compared(f"{NODES:,} nodes, {PODS:,} pods: {what}", unit, *both)


def main() -> None:
    """Measure and write."""
    found = asyncio.run(measure(checkouts(arguments("benchmarks.footprint", __doc__))))
    publish(MARK, text(found))
    print("\n".join(comparison(compared(found))))


if __name__ == "__main__":
    main()
