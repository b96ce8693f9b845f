"""What the intake tests share: an engine behind an observer, and somebody else who changes the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.engine.builders import OURS, make_engine, pod_object

from vgpu_devcluster import DevCluster
from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.engine import Engine, ObservationSignals, Problem
from vgpu_scheduler.intake import Observer

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"


@dataclass
class Watcher:
    """An observer and what it was told; ``other`` changes the cluster under another name."""

    cluster: DevCluster
    api: ApiClient
    other: ApiClient
    engine: Engine = field(default_factory=make_engine)
    moved: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lost_track: int = 0
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        signals = ObservationSignals()
        signals.node_changed.listen(self.moved.append)
        self.observer = Observer(self.engine, lambda: 0.0, signals, self.problems.append)

    def lose_track(self) -> None:
        """Count."""
        self.lost_track += 1

    @property
    def pods(self) -> set[str]:
        """Names of the pods that are known."""
        return {pod.name for pod in self.engine.state.pods()}

    @property
    def waiting(self) -> set[str]:
        """Names of the pods that wait to be placed."""
        return {pod.name for pod in self.engine.state.pods() if pod.uid in self.engine.queue}

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes that are known."""
        return {node.name for node in self.engine.state.all_nodes()}

    async def create(self, name: str, *, scheduler: str = OURS, node: str = "") -> None:
        """Create a pod, and bind it if a node is given."""
        body = pod_object(name, scheduler=scheduler)
        for key in ("uid", "resourceVersion"):
            del body["metadata"][key]
        body["spec"]["containers"][0]["image"] = "example"
        await self.write("POST", PODS, body)
        if node:
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            await self.write("POST", f"{PODS}/{name}/binding", target)

    async def write(self, method: str, path: str, body: Any = None, **more: Any) -> None:
        """Send a request that must succeed."""
        answer = await self.other.request(method, path, body, **more)
        assert answer.ok, answer.message

    async def delete(self, name: str) -> None:
        """Delete a pod."""
        await self.write("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)
