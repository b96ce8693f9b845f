"""An evictor with one card that is taken, and an API server that evicts pods."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.binding.quick import QuickApi, QuickBench
from tests.engine.builders import allocation, asks, cards, make_engine, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import Evictor, evictor, victim_eviction
from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.model import Decision

Obj = dict[str, Any]
PACE = 0.002
NO_RIGHT = b"""{"kind": "Status", "message": "pods \\"low\\" is forbidden: User \\"us\\" cannot create resource \\"pods/eviction\\" in API group \\"\\" in the namespace \\"default\\""}"""  # noqa: E501


class EvictionApi(QuickApi):
    """An API server that evicts pods.

    Attributes
    ----------
    wrote
        Method and path of each write to a pod, without what all paths begin with.
    read
        The paths of what was read.
    refusals
        The statuses of the next evictions; each is carried out once there are none.
    events
        Reasons and notes of events.
    retry_after
        Seconds that refusals ask to wait.
    slow_nomination
        The node to which a nomination is carried out only once :attr:`goes_on` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrote: list[str] = []
        self.read: list[str] = []
        self.refusals: deque[int] = deque()
        self.events: list[tuple[str, str]] = []
        self.on_write: Any = lambda _: None
        self.retry_after: float | None = None
        self.slow_nomination = ""
        self.goes_on = asyncio.Event()

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        """Carry a request out."""
        if path.endswith("/events"):
            self.events.append((body["reason"], body["note"]))
            return ApiResponse(201, b"{}")
        if method == "GET":
            self.read.append(path)
        if method == "GET" or "/pods/" not in path or path.endswith("/binding"):
            return await super().request(method, path, body, **more)
        await asyncio.sleep(0)
        if self.slow_nomination and body.get("status", {}).get("nominatedNodeName") == self.slow_nomination:
            await self.goes_on.wait()
        short = path.partition("/pods/")[2]
        self.wrote.append(f"{method} {short}")
        answer = self._write(method, short, body)
        self.on_write(short)
        return answer

    def _write(self, method: str, short: str, body: Obj) -> ApiResponse:
        name, _, what = short.partition("/")
        found = self.pods.get(name)
        if found is None:
            return ApiResponse(404, b"{}")
        if what == "status":
            version = body["metadata"].get("resourceVersion", found["metadata"]["resourceVersion"])
            if version != found["metadata"]["resourceVersion"]:
                return ApiResponse(409, b"{}")
            found["status"] = {key: of for key, of in {**found["status"], **body["status"]}.items() if of is not None}
        elif self.refusals:
            return ApiResponse(self.refusals.popleft(), NO_RIGHT, self.retry_after)
        else:
            found["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:50Z"  # 30 s after the clock of the bench began
        return ApiResponse(201 if method == "POST" else 200, self.encoded(found))


class PolicyApi:
    """An API server that has the status of policies, too.

    Attributes
    ----------
    recorded
        The evictions that each policy records, by its name.
    refuses
        The name of a policy to which nothing is written.
    on_write
        Called with the name of a policy after something was written to it.
    """

    def __init__(self, request: Any) -> None:
        self.recorded: dict[str, list[Obj]] = {}
        self.refuses = ""
        self.on_write: Any = lambda _: None
        self._request = request

    @property
    def evictions(self) -> list[Obj]:
        """Those that the policy of the bench records."""
        return self.recorded.get("preempts", [])

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        """Carry a request out."""
        if "policies/" not in path:
            response: ApiResponse = await self._request(method, path, body, **more)
            return response
        name = path.removesuffix("/status").rpartition("/")[2]
        if method == "PATCH" and name == self.refuses:
            return ApiResponse(422, b'{"kind": "Status", "message": "no"}')
        if method == "PATCH":
            self.recorded[name] = body["status"]["evictions"]
            self.on_write(name)
        status = {"evictions": self.recorded.get(name, [])}
        found = {"metadata": {"uid": "p", "resourceVersion": "1"}, "status": status}
        return ApiResponse(200, json.dumps(found).encode())


class EvictorBench(QuickBench):
    """An evictor, a node with one card, and a pod that has all of it."""

    def __init__(self, **rules: Any) -> None:
        self.eviction_api = EvictionApi()
        super().__init__(0, api=self.eviction_api, engine=make_engine(preemption=True))
        self.engine.preemptions.evaluator.unix_ahead = self.clock.now().timestamp() - self.clock.monotonic()
        rules = {"mayPreempt": True, **rules}
        self.engine.policy_tracker.observe(policy("preempts", {"preemption": rules}))
        self.api.nodes["n"] = node_object("n", cards("n", 1))
        self.see(NODES, self.api.nodes["n"])
        self.left: list[str] = []
        self.may_leave = True
        self.evictor = Evictor(self.context, 1.0, self._leave)

    def _leave(self, uid: str) -> bool:
        self.left.append(uid)
        if self.may_leave:
            self.engine.unreserve(uid, self.clock.monotonic())
        return self.may_leave

    def runs(self, name: str, node: str = "n", memory: int = 8000, priority: int = 0) -> None:
        """Have a pod run that has the card of a node, or a part of it."""
        notes = allocation(node, (f"{node}-gpu-0", memory, 0))
        self.api.pods[name] = pod_object(
            name, asks(gpumem=memory), annotations=notes, nodeName=node, started=True, priority=priority
        )
        self.see(PODS, self.api.pods[name])

    def decided(self, name: str, priority: int) -> Decision:
        """Have a pod come that asks for the whole card, and be decided."""
        self.api.pods[name] = pod_object(name, asks(gpumem=8000), priority=priority)
        self.see(PODS, self.api.pods[name])
        return self.tried()

    def tried(self) -> Decision:
        """Decide the next pod."""
        decision = self.engine.attempt(self.clock.monotonic())
        assert decision is not None
        return decision

    def preempts(self) -> None:
        """Have a pod of high priority come, and its victims evicted."""
        decision = self.decided("high", 5)
        assert decision.preemption is not None
        self.evictor.submit(decision)

    def is_kept(self) -> bool:
        """Tell whether room is kept for the pod of high priority."""
        return self.engine.preemptions.of("uid-high") is not None


@asynccontextmanager
async def bench(monkeypatch: pytest.MonkeyPatch, **rules: Any) -> AsyncIterator[EvictorBench]:
    """Set a bench up whose evictor looks after what is under way."""
    monkeypatch.setattr(evictor, "_PACE", PACE)
    for name in ("_RETRY_AFTER", "_LEAVES_LANE_AFTER"):
        monkeypatch.setattr(victim_eviction, name, PACE)
    made = EvictorBench(**rules)
    made.reporter.start()
    looking = asyncio.create_task(made.evictor.run())
    try:
        yield made
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await made.evictor.stop()
        await made.reporter.stop(1.0)


def nominate(pod: Obj, node: str, manager: str = "vgpu-scheduler") -> None:
    """Have a pod be nominated to a node by somebody."""
    pod["status"]["nominatedNodeName"] = node
    written = {"f:status": {"f:nominatedNodeName": {}}}
    pod["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": written}]


async def some_looks() -> None:
    """Let the evictor look around several times."""
    await asyncio.sleep(10 * PACE)
