"""A binder over an API server of a few lines, which answers at once, or what it is told to."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from tests.engine.builders import cards, make_engine, node_object, pod_object

from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding import BindContext, Binder, BinderHooks, EventSource, HookPoint, Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals
from vgpu_scheduler.intake import NODES, PODS, Kind, Observer
from vgpu_scheduler.kube import Pod, decode_event
from vgpu_scheduler.model import Decision
from vgpu_scheduler.runtime.replica import binder_options
from vgpu_scheduler.settings import Settings

LOCK = "hami.io/mutex.lock"
KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (NODES, PODS)}

Object = dict[str, Any]


class QuickApi:
    """Answers what a bind asks for, and keeps the objects.

    Attributes
    ----------
    answers
        The statuses of the next Bindings; 0 for no answer. Each is carried out once there are none.
    readable
        Whether pods can be read.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.version = 1000
        self.answers: deque[int] = deque()
        self.readable = True

    def encoded(self, found: Object) -> bytes:
        """Return an object in a new version."""
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        return json.dumps(found, separators=(",", ":")).encode()

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        """Carry a request out; those that are about events say nothing, and dry runs would be carried out."""
        await asyncio.sleep(0)
        if more.get("params", {}).get("dryRun"):
            return ApiResponse(201, b"{}")
        name = path.rsplit("/", maxsplit=1)[-1]
        if "/nodes/" in path and method == "PATCH":
            return ApiResponse(200, self._patch(self.nodes[name], body))
        if path.endswith("/binding"):
            return self._bind(body)
        if method == "GET" and not self.readable:
            raise ApiUnreachableError("no answer")
        if method == "GET" and name in self.pods:
            return ApiResponse(200, json.dumps(self.pods[name]).encode())
        return ApiResponse(404 if method == "GET" else 201, b"{}")

    def _patch(self, found: Object, body: Any) -> bytes:
        annotations = found["metadata"].setdefault("annotations", {})
        for operation in body:
            key = operation["path"].rsplit("/", maxsplit=1)[-1].replace("~1", "/")
            if operation["op"] == "add":
                annotations[key] = operation["value"]
            elif operation["op"] == "remove":
                annotations.pop(key, None)
        return self.encoded(found)

    def _bind(self, body: Any) -> ApiResponse:
        status = self.answers.popleft() if self.answers else 201
        if not status:
            raise ApiUnreachableError("no answer")
        if status != 201:
            return ApiResponse(status, b'{"kind":"Status","message":"no"}')
        found = self.pods[body["metadata"]["name"]]
        found["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        found["spec"]["nodeName"] = body["target"]["name"]
        self.encoded(found)
        return ApiResponse(201, b'{"kind":"Status","status":"Success"}')


class SetClock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def monotonic(self) -> float:
        """Return seconds."""
        return self.seconds

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.fromtimestamp(1_700_000_000 + self.seconds, UTC)


class QuickBench:
    """An engine and a binder.

    Attributes
    ----------
    leads
        Whether the lease is held.
    may_write
        Tells whether it will be in so many seconds.
    """

    def __init__(
        self,
        nodes: int = 2,
        at_point: Callable[[HookPoint], None] | None = None,
        api: QuickApi | None = None,
        engine: Engine | None = None,
        **options: Any,
    ) -> None:
        self.api = api or QuickApi()
        client, self.clock = cast("ApiClient", self.api), SetClock()
        self.engine = engine or make_engine()
        self.reporter = Reporter(client, EventSource("vgpu-scheduler", "test"), self.clock)
        self.leads = True
        self.may_write: Callable[[float], bool] = lambda _: self.leads
        self.ended = asyncio.Event()
        self.signals = ObservationSignals()
        self.observer = Observer(self.engine, self.clock.monotonic, self.signals, self.reporter.problem)
        context = self.context = BindContext(
            client, self.engine, self.reporter, self.clock, self._may_write,
            lambda kind, answer: self.observer.observe_answer(KINDS[kind], answer), self.signals,
        )  # fmt: skip
        hooks = BinderHooks(on_attempt=lambda *_: self.ended.set())
        if at_point is not None:
            told = at_point

            async def step(reached: HookPoint, _: Pod) -> None:
                told(reached)

            hooks = replace(hooks, at_point=step)
        defaults = binder_options(Settings(), label_first=False)
        self.binder = Binder(context, replace(defaults, **{"timeout": 5.0, **options}), hooks)
        for number in range(nodes):
            self.api.nodes[f"n{number}"] = node_object(f"n{number}", cards(f"n{number}", 8))
            self.see(NODES, self.api.nodes[f"n{number}"])

    def _may_write(self, seconds: float) -> bool:
        return self.may_write(seconds)

    def see(self, kind: Kind[Any], found: Object) -> None:
        """Take in an object as a watch shows it."""
        line = b'{"type":"MODIFIED","object":' + self.api.encoded(found) + b"}"
        event = decode_event(line, kind.decode)
        assert event.object is not None
        self.observer.observe(kind, event.object)

    def see_pod(self, name: str) -> None:
        """Take in a pod as it is now."""
        self.see(PODS, self.api.pods[name])

    def decide(self, name: str, resources: Object | None = None, **more: Any) -> Decision:
        """Have a pod come and be decided."""
        self.clock.seconds += 1.0
        self.api.pods[name] = pod_object(name, resources, **more)
        self.see(PODS, self.api.pods[name])
        (decision,) = self.engine.schedule_next(self.clock.monotonic(), most_partial_attempts=32)
        assert decision.placement is not None, decision.message
        return decision

    def serve(self, name: str) -> None:
        """Show a pod as it is bound, and do what the node side does with it."""
        found = self.api.pods[name]
        self.see(PODS, found)
        node = self.api.nodes[found["spec"]["nodeName"]]
        if LOCK in node["metadata"].get("annotations", {}):
            found["metadata"]["annotations"]["hami.io/bind-phase"] = "success"
            self.see(PODS, found)
            del node["metadata"]["annotations"][LOCK]
            self.see(NODES, node)
        found["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        self.see(PODS, found)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(30.0):
            while not condition():
                await asyncio.sleep(0)
