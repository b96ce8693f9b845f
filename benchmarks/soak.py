"""Churn for as long as one likes: nothing may grow, nothing may get slower. ``python -m benchmarks.soak --minutes 60``.

Pods come, run, are resized and deleted; nodes are cordoned, drained and registered anew, cards fail and recover,
policies come, change and go; all of it drawn from a seeded generator, as fast as the API server lets it. The tables go
to docs/soak.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from benchmarks.cluster import CARDS, PODS, cluster, node_name, pod
from vgpu_devcluster import NodeSide
from vgpu_devcluster.process import OperatorProcess

TARGET = Path(__file__).parents[1] / "docs" / "soak.md"
DEFINITIONS = Path(__file__).parents[1] / "crds"
NODES = [node_name(number, 40) for number in range(40)]
ALIVE = 600
"""Pods that are there at a time, about."""
WINDOWS = 10
POLICIES = "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies"
MERGE = {"Content-Type": "application/merge-patch+json"}
MIB = 1 << 20
HEAD = """# What stays flat

Pods come, run, are resized and deleted; nodes are cordoned and drained, cards fail and recover, policies come, change
and go, as fast as the API server lets them. `python -m benchmarks.soak` writes this page: the operator as a process, a
real API server and etcd on the same machine, {nodes} nodes of {cards} cards and about {alive} pods at a time.

{minutes:g} minutes with seed {seed}, in {windows} windows: {did}. At the end the ledger equalled its rebuild, nothing
had had to be repaired, and the node side had nothing to object to.

| window | pods bound | create to bound, p50 | p99 | resident memory | descriptors | tasks | CPU per pod bound |
|---:|---:|---:|---:|---:|---:|---:|---:|
"""

TAIL = """The first window includes the start, and the pods that fill the cluster. Memory rises until as much is
remembered of removed objects as ever is: 10,000 of each kind.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What the operator is like at a moment."""

    at: float
    memory: float
    """MiB that are resident."""
    descriptors: int
    tasks: int
    cpu: float
    """Seconds since its start."""


@dataclass(slots=True)
class Churn:
    """What is done to the cluster.

    Attributes
    ----------
    latencies
        When pods were seen bound, and how many seconds after they were created.
    done
        How often what was done.
    """

    http: aiohttp.ClientSession
    nodes: NodeSide
    rng: random.Random
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    latencies: list[tuple[float, float]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    number: int = 0

    async def watch(self) -> None:
        """Note when pods are bound."""
        while True:
            params = {"watch": "true", "timeoutSeconds": "3600"}
            with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with self.http.get(PODS, params=params, timeout=aiohttp.ClientTimeout(None)) as answer:
                    async for line in answer.content:
                        self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        shown = event["object"]
        name, node = shown["metadata"].get("name", ""), shown.get("spec", {}).get("nodeName", "")
        if event["type"] == "DELETED":
            self.created.pop(name, None)
            self.bound.pop(name, None)
        elif node and name in self.created:
            now = time.perf_counter()
            self.latencies.append((now, now - self.created.pop(name)))
            self.bound[name] = node

    async def create(self) -> None:
        """Have a pod come: most ask for a slice, some for a card, some for none."""
        self.number += 1
        name = f"pod-{self.number}"
        memory = self.rng.choice((0, 4096, 8192, 8192, 16384, 81920))
        self.created[name] = time.perf_counter()
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)} if memory else {}
        body = pod(name, "vgpu-scheduler", limits)
        body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "10m"}
        async with self.http.post(PODS, json=body) as answer:
            await answer.read()
        self.done["pods created"] += 1

    async def delete(self) -> None:
        """Delete a pod that runs."""
        if self.bound:
            await self._delete(self.rng.choice(sorted(self.bound)))

    async def _delete(self, name: str) -> None:
        async with self.http.delete(f"{PODS}/{name}", json={"gracePeriodSeconds": 0}) as answer:
            await answer.read()
        self.done["pods deleted"] += 1

    async def resize(self) -> None:
        """Have a running pod ask for more CPU, or for less."""
        if self.bound:
            name = self.rng.choice(sorted(self.bound))
            amounts = {"requests": {"cpu": self.rng.choice(("10m", "20m", "50m"))}}
            body = {"spec": {"containers": [{"name": "main", "resources": amounts}]}}
            headers = {"Content-Type": "application/strategic-merge-patch+json"}
            async with self.http.patch(f"{PODS}/{name}/resize", json=body, headers=headers) as answer:
                await answer.read()
                self.done["pods resized"] += answer.ok

    async def drain(self) -> None:
        """Cordon a node, delete its pods, and open it again."""
        node = self.rng.choice(NODES)
        await self._cordon(node, closed=True)
        for name in [name for name, where in self.bound.items() if where == node]:
            await self._delete(name)
        await self._cordon(node, closed=False)
        self.done["nodes drained"] += 1

    async def _cordon(self, node: str, *, closed: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        async with self.http.patch(path, json={"spec": {"unschedulable": closed}}, headers=MERGE) as answer:
            await answer.read()

    async def register(self) -> None:
        """Have a plugin register its cards anew, one of them failed or recovered."""
        node = self.rng.choice(NODES)
        cards = self.nodes.cards(node)
        failed = [card for card in cards if not card.healthy]
        one = self.rng.choice(failed if len(failed) > 1 else cards)
        await self.nodes.set_health(node, one.uuid, healthy=not one.healthy)
        self.done["registrations changed"] += 1

    async def policy(self) -> None:
        """Have a policy come, change or go."""
        name = f"policy-{self.rng.randrange(5)}"
        spec = {"priority": self.rng.randrange(100), "nodes": {"policy": self.rng.choice(("binpack", "spread"))}}
        body = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "ClusterVGPUPolicy", "metadata": {"name": name}}
        async with self.http.post(POLICIES, json={**body, "spec": spec}) as answer:
            status = answer.status
        if status == 409:
            if self.rng.random() < 0.5:
                async with self.http.delete(f"{POLICIES}/{name}") as answer:
                    await answer.read()
            else:
                async with self.http.patch(f"{POLICIES}/{name}", json={"spec": spec}, headers=MERGE) as answer:
                    await answer.read()
        self.done["policies changed"] += 1

    async def run(self, until: float) -> None:
        """Do one thing after the other."""
        rare: Sequence[tuple[float, Callable[[], Awaitable[None]]]] = (
            (0.02, self.resize),
            (0.004, self.register),
            (0.002, self.policy),
            (0.001, self.drain),
        )
        while time.perf_counter() < until:
            alive = len(self.created) + len(self.bound)
            await (self.create() if alive < ALIVE or self.rng.random() < 0.45 else self.delete())
            for share, what in rare:
                if self.rng.random() < share:
                    await what()


async def look(operator: OperatorProcess) -> Look:
    """Look at the operator."""
    _, text = await operator.get("/debug/tasks")
    return Look(
        time.perf_counter(),
        await operator.metric("process_resident_memory_bytes") / MIB,
        int(await operator.metric("process_open_fds")),
        json.loads(text)["tasks"],
        await operator.metric("process_cpu_seconds_total"),
    )


async def soak(minutes: float, seed: int) -> str:
    """Have it churn for some minutes, and return the report."""
    async with cluster(len(NODES)) as found:
        found.plane.kubectl("apply", "-k", str(DEFINITIONS))
        found.manner.quiet = False
        await found.nodes.start()
        operator = OperatorProcess(found.plane.kubeconfig(), found.folder / "log", {"VGPU_SWEEP_INTERVAL": "60"})
        operator.start()
        try:
            await operator.until_leading()
            return await _churn(Churn(found.http, found.nodes, random.Random(seed)), operator, minutes, seed)
        finally:
            operator.stop()


async def _churn(churn: Churn, operator: OperatorProcess, minutes: float, seed: int) -> str:
    watching = asyncio.create_task(churn.watch())
    began = time.perf_counter()
    window = 60 * minutes / WINDOWS
    at_work = [asyncio.create_task(churn.run(began + 60 * minutes)) for _ in range(4)]
    looks = []
    for number in range(1, WINDOWS + 1):
        await asyncio.sleep(max(began + number * window - time.perf_counter(), 0))
        looks.append(await look(operator))
        print(f"window {number} of {WINDOWS}: {looks[-1]}", flush=True)
    await asyncio.gather(*at_work)
    watching.cancel()
    books = await operator.ledger()
    repaired = await operator.metric("vgpu_scheduler_ledger_repairs_total")
    # A card may fail while a pod is on its way to it: nobody can know that in time.
    wrong = [found for found in churn.nodes.violations if "unhealthy card" not in found]
    if books["drift"] or repaired or wrong:
        raise RuntimeError(f"drift {books['drift']}, {repaired:.0f} repairs, violations {wrong[:3]}")
    return report(minutes, seed, churn, began, looks)


def report(minutes: float, seed: int, churn: Churn, began: float, looks: Sequence[Look]) -> str:
    """Return the page."""
    window = 60 * minutes / WINDOWS
    did = ", ".join(f"{count:,} {what}" for what, count in sorted(churn.done.items()))
    sizes = {"nodes": len(NODES), "cards": len(CARDS), "alive": ALIVE, "windows": WINDOWS}
    text = HEAD.format(minutes=minutes, seed=seed, did=did, **sizes)
    cpu = 0.0
    for number, found in enumerate(looks, 1):
        first, last = began + (number - 1) * window, began + number * window
        took = [seconds for at, seconds in churn.latencies if first <= at < last]
        p50, p99 = np.quantile(took, (0.5, 0.99)) * 1000 if took else (0.0, 0.0)
        per_pod = 1000 * (found.cpu - cpu) / max(len(took), 1)
        text += (
            f"| {number} | {len(took):,} | {p50:,.0f} ms | {p99:,.0f} ms | {found.memory:,.0f} MiB "
            f"| {found.descriptors} | {found.tasks} | {per_pod:.1f} ms |\n"
        )
        cpu = found.cpu
    return f"{text}\n{TAIL}"


def main() -> None:
    """Churn, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    TARGET.write_text(asyncio.run(soak(arguments.minutes, arguments.seed)))
    print(f"{TARGET} is written")


if __name__ == "__main__":
    main()
