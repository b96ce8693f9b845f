"""A whole engine with its reporter, and tenants who create pods and delete them again; run as a program, it measures.

Each pod says something that no pod said before, in the fields that something is remembered of. Most of it is short, so
that there are many; some is as long as API servers take.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import sys
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.engine.builders import asks, cards, make_engine, node, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import EventSource, Reporter
from vgpu_scheduler.engine import ObservationSignals
from vgpu_scheduler.intake import PODS, Observer
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import BoundedCache, Decision
from vgpu_scheduler.runtime.collecting import release_memory
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.telemetry import Metrics

ALIVE = 30
"""Pods at a time."""
LONGEST = 200_000
Fields = dict[str, Any]


def said(number: int) -> str:
    """Return a text that no other pod says; some are long, and some take four bytes a character in memory."""
    length = LONGEST if number % 400 < 20 else 100 + number * 7 % 1500
    return ("🙂" if number % 3 == 0 else "x") + "x" * (length - 12) + f",{number}"


def term(number: int) -> Fields:
    """Return an inter-pod term, or what a spread constraint has of it."""
    labels = {f"key-{n}": f"value-{number}" for n in range(12)}
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}


def annotated(key: str, **fields: Any) -> Callable[[int], Fields]:
    """Return pods that say something in an annotation."""
    return lambda number: {"annotations": {key: said(number)}, **fields}


KINDS: tuple[Callable[[int], Fields], ...] = (
    annotated("hami.io/node-scheduler-policy"),
    annotated("hami.io/gpu-scheduler-policy"),
    annotated("hami.io/device-scoring-weights"),
    annotated("nvidia.com/use-gpuuuid", resources=asks(1)),
    annotated("nvidia.com/nouse-gputype", resources=asks(1, 90_000)),
    annotated("example.com/nothing"),
    lambda number: {"annotations": {f"nvidia.com/use-gputyp{number}": ""}, "labels": {"team": f"team-{number}"}},
    lambda number: {"resources": asks(1, 90_000, **{f"nvidia.com/gpumen{number}": "1"})},
    lambda number: {"resources": asks(1, 90_000, cpu="0" * len(said(number)) + "1")},
    lambda number: {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(number)] * 3}}
    },
    lambda number: {
        "topologySpreadConstraints": [{**term(number), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    },
    lambda number: {"tolerations": [{"key": said(number), "operator": "Exists"}], "nodeSelector": {"a": f"b{number}"}},
    lambda number: {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}]},
    lambda number: {"resources": asks(1, 100), "annotations": {"hami.io/node-scheduler-policy": said(number)}},
)


def bound(number: int) -> Fields:
    """Return a pod of another scheduler, whose allocation nobody can read."""
    annotations = {"hami.io/vgpu-node": "b", "hami.io/vgpu-devices-allocated": said(number)}
    return {"scheduler": "another", "nodeName": "b", "started": True, "annotations": annotations}


class World:
    """The API server, the binder and the clock of the engine, which do what they are asked for at once."""

    def __init__(self) -> None:
        self.engine = make_engine()
        self.time = 0.0
        self.longest = {"note": 0, "message": 0}
        self.reporter = Reporter(self, EventSource("s", "i", "https://example.com"), self)  # type: ignore[arg-type]
        signals = ObservationSignals()
        attempts = Metrics().attempts
        self.loop = SchedulingLoop(self.engine, DecisionHandlers(self, self, self.reporter), self, attempts, signals)  # type: ignore[arg-type]
        self.observer = Observer(self.engine, self.monotonic, signals, self.reporter.problem)
        self.placed = 0
        for name in "ab":
            self.engine.observe_node(node(name, cards(name, 2)), 0.0)
        self.engine.policy_tracker.observe(
            policy("teams", {"selector": {"matchLabels": {"team": "a"}}, "nodes": {"policy": "spread"}})
        )

    def monotonic(self) -> float:
        """Return seconds."""
        return self.time

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.fromtimestamp(self.time, UTC)

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> ApiResponse:
        """Take a write."""
        del method, path
        for condition in body.get("status", {}).get("conditions", ()):
            self.longest["message"] = max(self.longest["message"], len(condition["message"].encode()))
        self.longest["note"] = max(self.longest["note"], len(body.get("note", "").encode()))
        return ApiResponse(201, b"{}")

    def submit(self, *decisions: Decision) -> None:
        """Bind pods."""
        for decision in decisions:
            self.engine.binding_succeeded(decision.uid)
            self.placed += 1

    async def live(self, first: int, last: int) -> None:
        """Have pods come and go."""
        alive: deque[str] = deque()
        for number in range(first, last):
            kind = KINDS[number % len(KINDS)] if number % 100 else bound
            fields = {"resources": {"requests": {"cpu": "1k"}}, **kind(number)}
            found = decode_pod(pod_object(f"p{number}", namespace=f"ns-{number % 50}", **fields))
            alive.append(found.uid)
            self.time += 0.02
            self.observer.observe(PODS, found)
            while self.loop._decide_some():
                pass
            self.reporter.tick(self.engine.state.pod)
            if len(alive) > ALIVE:
                self.gone(alive.popleft())
            if number % 20 == 0:
                await self.reporter.flush()
        for uid in alive:
            self.gone(uid)
        await self.reporter.flush()

    def gone(self, uid: str) -> None:
        """Delete a pod."""
        found = self.engine.state.pod(uid)
        assert found is not None
        self.observer.deleted_by_watch(PODS, found)


def resident() -> float:
    """Return the MiB that this process has in memory."""
    gc.collect()
    release_memory()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def over_their_bounds() -> list[str]:
    """Return the stores that take more than they may."""
    stores = [found for found in gc.get_objects() if isinstance(found, BoundedCache)]
    assert len(stores) > 20
    return [f"{store.bytes} of {store._most_bytes}" for store in stores if store.bytes > store._most_bytes]


async def main(pods: int) -> None:
    """Print what was measured."""
    logging.disable(logging.CRITICAL)
    world = World()
    world.reporter.start()
    await world.live(0, 500)
    sizes, over = [resident()], over_their_bounds()
    for first, last in ((500, pods // 2), (pods // 2, pods)):
        await world.live(first, last)
        sizes.append(resident())
        over += over_their_bounds()
    print(json.dumps({
        "resident": sizes, "over": over, "longest": world.longest, "placed": world.placed,
        "pods": len(list(world.engine.state.pods())), "dropped": world.reporter.dropped,
    }))  # fmt: skip
    await world.reporter.stop(1.0)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
