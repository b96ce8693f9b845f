"""How fast pods get the room of others on a real API server: after the last victim has left, and many at once.

``python -m benchmarks.evicting`` measures and writes the table to docs/performance.md.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from benchmarks.cluster import PODS, SLICE, BenchmarkCluster, cluster, following_pods, pod, post
from benchmarks.page import publish
from benchmarks.throughput import Candidate, KubeScheduler
from vgpu_devcluster.process import OperatorProcess

MARK: Final = "<!-- evicting -->"
CRDS: Final = Path(__file__).parents[1] / "crds"
ALONE: Final = 20
"""Pods that get a room one after the other."""
NODES: Final = 50
EACH: Final = 10
"""Plain pods on each node: they fill it."""
TURNS: Final = 2
"""Turns of this operator and of kube-scheduler."""
WITHIN: Final = 300.0
HALF: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "40000"}
"""What two pods on each card ask for, and every pod that gets the room of one of them."""
POLICY: Final = {
    "apiVersion": "vgpu-scheduler.io/v1alpha1",
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "preempts"},
    "spec": {"preemption": {"mayPreempt": True}},
}


def of_class(name: str, scheduler: str, priority: str, limits: dict[str, str], cpu: str = "") -> dict[str, Any]:
    """Return a pod of a class of priority."""
    found = pod(name, scheduler, limits)
    found["spec"] |= {"priorityClassName": priority, "terminationGracePeriodSeconds": 1}
    if cpu:
        found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return found


class Watched:
    """When pods were first seen bound, and when they were seen gone, by name."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self.bound: dict[str, float] = {}
        self.gone: dict[str, float] = {}

    def following(self) -> AbstractAsyncContextManager[None]:
        """Follow for the time of the block."""
        return following_pods(self._http, self._take)

    def _take(self, event: dict[str, Any]) -> None:
        name, now = event["object"]["metadata"]["name"], time.perf_counter()
        if event["type"] == "DELETED":
            self.gone[name] = now
        elif event["object"]["spec"].get("nodeName"):
            self.bound.setdefault(name, now)

    async def until_bound(self, *names: str) -> float:
        """Wait until pods are bound; return when the last of them was."""
        deadline = time.perf_counter() + WITHIN
        while not self.bound.keys() >= set(names):
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{len(set(names) - self.bound.keys())} pods were not bound")
            await asyncio.sleep(0.005)
        return max(self.bound[name] for name in names)


async def clear(found: BenchmarkCluster) -> None:
    """Delete all pods, and wait until they are gone."""
    found.plane.kubectl("delete", "pods", "--all", "-n", "default", "--wait=false")
    while True:
        async with found.http.get(PODS) as answer:
            if not (await answer.json())["items"]:
                return
        await asyncio.sleep(0.2)


def prepare(found: BenchmarkCluster) -> Candidate:
    """Create what preemption needs; return the operator."""
    for name, value in (("low", 0), ("high", 1000)):
        found.plane.kubectl("create", "priorityclass", name, f"--value={value}")
    found.plane.kubectl("apply", "-k", str(CRDS))
    found.plane.kubectl("wait", "--for=condition=established", "crd", "--all")
    found.plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(POLICY))
    log = found.folder / "operator.log"
    return Candidate("", OperatorProcess(found.plane.kubeconfig(), log, {"VGPU_PREEMPTION": "true"}))


async def one_by_one() -> tuple[float, float]:
    """Return medians in milliseconds: creation to bound of idle slices, and end of the last victim to bound."""
    async with cluster(2) as found:
        operator, seen = prepare(found), Watched(found.http)
        await found.nodes.start()
        async with operator.running(), seen.following():
            idle = []
            for number in range(ALONE):
                began = time.perf_counter()
                await post(found.http, PODS, pod(f"idle-{number}", operator.scheduler, SLICE))
                idle.append(await seen.until_bound(f"idle-{number}") - began)
                await asyncio.sleep(0.02)
            await clear(found)
            low = [f"low-{number}" for number in range(2 * 8 * 2)]
            for name in low:
                await post(found.http, PODS, of_class(name, operator.scheduler, "low", HALF))
            await seen.until_bound(*low)
            await asyncio.sleep(1.0)
            after = []
            for number in range(ALONE):
                name, before = f"high-{number}", set(seen.gone)
                await post(found.http, PODS, of_class(name, operator.scheduler, "high", HALF))
                bound = await seen.until_bound(name)
                (victim,) = seen.gone.keys() - before
                after.append(bound - seen.gone[victim])
                await asyncio.sleep(0.02)
    return 1000 * statistics.median(idle), 1000 * statistics.median(after)


async def all_at_once() -> dict[str, list[float]]:
    """Return the seconds until 500 plain pods are bound that each get the room of another one, for every turn."""
    seconds: dict[str, list[float]] = {}
    for turn in range(TURNS):
        async with cluster(NODES) as found:
            ours = prepare(found)
            await found.nodes.start()
            for each in (ours, KubeScheduler(found.plane)) if turn % 2 else (KubeScheduler(found.plane), ours):
                seen = Watched(found.http)
                async with each.running(), seen.following():
                    for priority in ("low", "high"):
                        names = [f"{priority}-{number}" for number in range(NODES * EACH)]
                        began = time.perf_counter()
                        for name in names:
                            await post(found.http, PODS, of_class(name, each.scheduler, priority, {}, "6"))
                        took = await seen.until_bound(*names) - began
                        await asyncio.sleep(2.0)
                    seconds.setdefault("kube-scheduler" if isinstance(each, KubeScheduler) else "", []).append(took)
                await clear(found)
    return seconds


def table(idle: float, after: float, seconds: dict[str, list[float]]) -> str:
    """Return the table of the page."""
    ours, theirs = (statistics.mean(seconds[name]) for name in ("", "kube-scheduler"))
    lines = [
        "| on a real API server | |",
        "|---|---:|",
        f"| an idle slice: from its creation to bound, p50 | {idle:.1f} ms |",
        f"| a slice that gets a room: from the end of the last victim to bound, p50 | {after:.1f} ms |",
        f"| the second, as a multiple of the first | {after / idle:.2f} |",
        f"| {NODES * EACH} plain pods that each get the room of another one: until all are bound | {ours:.1f} s |",
        f"| the same by kube-scheduler | {theirs:.1f} s |",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    publish(MARK, table(*asyncio.run(one_by_one()), asyncio.run(all_at_once())))


if __name__ == "__main__":
    main()
