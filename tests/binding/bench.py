"""A binder with all that it works with, on a devcluster in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.engine.builders import OURS, allocation, make_engine, pod_object

from vgpu_devcluster import BEHAVIOUR, DevCluster, NodeSide
from vgpu_scheduler.apiclient import ApiClient, ApiResponse, connect
from vgpu_scheduler.binding import (
    BindContext,
    Binder,
    BinderHooks,
    BindingAnswer,
    BindTask,
    EventSource,
    HookPoint,
    Reporter,
)
from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.dialects.hami import format_lock
from vgpu_scheduler.engine import Engine, ObservationSignals, TakenLock
from vgpu_scheduler.intake import NODES, STORAGE, Kind, Observer, list_all
from vgpu_scheduler.intake import PODS as POD_KIND
from vgpu_scheduler.kube import Pod, decode_event, decode_pod
from vgpu_scheduler.runtime.replica import binder_options
from vgpu_scheduler.settings import Settings

AGENT = "vgpu-scheduler/test"
LOCK = "hami.io/mutex.lock"
PODS = "/api/v1/namespaces/default/pods"
PENDING = {"hami.io/bind-phase": "allocating", "hami.io/vgpu-devices-to-allocate": "GPU-1,NVIDIA,1,0:;"}

KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (*STORAGE, POD_KIND, NODES)}

Object = dict[str, Any]


def taken_lock(value: str) -> TakenLock:
    """Return HAMi's lock with a value."""
    return TakenLock(NodeLock(LOCK), value)


class ShiftedClock:
    """The machine's clocks, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Return seconds."""
        return asyncio.get_running_loop().time() + self.ahead

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead)


class Bench:
    """What a test of the binder sees.

    Attributes
    ----------
    leads
        Whether the lease is held.
    binder
        With short times: 0.4 s for a Binding, 0.1 s between looks at a node.
    heard
        What was told of binds: what, the pod, the answer, and seconds.
    attempts
        The attempts of which it was told.
    nodes
        The node side; it plays only after ``nodes.start()``.
    """

    def __init__(
        self, cluster: DevCluster, api: ApiClient, nodes: NodeSide, engine: Engine | None = None, **options: Any
    ) -> None:
        self.cluster = cluster
        self.api = api
        self.nodes = nodes
        self.clock = ShiftedClock()
        self.leads = True
        quick = {"timeout": 0.4, "node_side_timeout": 20.0, "poll_interval": 0.1}
        chosen = replace(binder_options(Settings(), label_first=False), **{**quick, **options})
        self.engine = engine or make_engine(bind_timeout=chosen.timeout)
        self.reporter = Reporter(api, EventSource("vgpu-scheduler", "test"), self.clock)
        self.steps: list[tuple[HookPoint, str]] = []
        self.at_point: Callable[[HookPoint, Pod], None] = lambda *_: None
        self.on_attempt: Callable[[BindTask], None] = lambda _: None
        self.on_answer: Callable[[Pod, BindingAnswer], None] = lambda *_: None
        self.heard: list[tuple[str, str, str, float]] = []
        self.attempts: list[BindTask] = []
        self.withdrawn: list[str] = []
        hooks = BinderHooks(
            at_point=self._step,
            on_attempt=self._attempted,
            on_answer=self._answered,
        )
        signals = ObservationSignals()
        self.observer = Observer(self.engine, self.clock.monotonic, signals, self.reporter.problem)
        self.context = BindContext(
            api,
            self.engine,
            self.reporter,
            self.clock,
            lambda _: self.leads,
            lambda kind, answer: self.observer.observe_answer(KINDS[kind], answer),
            signals,
            self.withdrawn.append,
        )
        self.binder = Binder(self.context, chosen, hooks)
        self.wake = asyncio.Event()
        signals.decide_again.listen(self.wake.set)
        self._tasks: list[asyncio.Task[None]] = []

    def _attempted(self, task: BindTask, pod: Pod, answer: BindingAnswer) -> None:
        self.attempts.append(task)
        self.heard.append(("attempt", pod.name, answer.value, task.ended_at - task.decided_at))
        self.on_attempt(task)

    def _answered(self, pod: Pod, answer: BindingAnswer, took: float) -> None:
        self.heard.append(("answer", pod.name, answer.value, took))
        self.on_answer(pod, answer)

    async def _step(self, step: HookPoint, pod: Pod) -> None:
        self.steps.append((step, pod.name))
        self.at_point(step, pod)

    # The cluster -----------------------------------------------------------------------------------------------------

    async def learn(self) -> None:
        """Bring the engine up to date once."""
        for kind in KINDS.values():
            await self.observer.relist(kind, await list_all(self.api, kind))

    def watch(self, unwatched: str = "") -> None:
        """Keep the engine up to date from now on, but for a kind."""
        for kind in KINDS.values():
            if kind.name == unwatched:
                continue
            self._tasks.append(asyncio.create_task(self._follow(kind)))

    async def _follow(self, kind: Kind[Any]) -> None:
        async with self.api.stream(kind.path, {"watch": "true"}, 60.0) as lines:
            async for line in lines:
                event = decode_event(line, kind.decode)
                if event.object is not None:
                    (self.observer.deleted_by_watch if event.type == "DELETED" else self.observer.observe)(
                        kind, event.object
                    )

    async def call(self, method: str, path: str, body: object = None, **more: Any) -> ApiResponse:
        """Send a request as somebody else, which is not counted as ours."""
        other = ApiClient(self.api.credentials, "somebody-else")
        try:
            return await other.request(method, path, body, **more)
        finally:
            await other.close()

    async def create(self, name: str, resources: Object | None = None, **more: Any) -> Pod:
        """Create a pod and return it as the API server shows it."""
        body = pod_object(name, resources, **more)
        for key in ("uid", "resourceVersion"):
            del body["metadata"][key]
        del body["status"]
        body["spec"]["containers"][0]["image"] = "example"
        answer = await self.call("POST", f"/api/v1/namespaces/{body['metadata']['namespace']}/pods", body)
        assert answer.ok, answer.message
        return decode_pod(answer.body)

    async def bind_elsewhere(self, name: str, node: str, annotations: Object | None = None) -> None:
        """Bind a pod as another scheduler."""
        body = {"metadata": {"name": name, "annotations": annotations or {}}, "target": {"kind": "Node", "name": node}}
        assert (await self.call("POST", f"{PODS}/{name}/binding", body)).ok

    async def occupy(self, node: str, scheduler: str = OURS) -> str:
        """Have a pod ``occupant`` hold the lock of a node, bound and not answered; return the lock's value."""
        await self.create("occupant", scheduler=scheduler, annotations={BEHAVIOUR: "never"})
        card = self.nodes.cards(node)[0].uuid
        await self.bind_elsewhere("occupant", node, {**allocation(node, (card, 1000, 0)), **PENDING})
        value = format_lock(datetime.now(UTC), "default", "occupant")
        await self.annotate_node(node, {LOCK: value})
        return value

    async def read(self, name: str) -> Object:
        """Return a pod."""
        return dict((await self.call("GET", f"{PODS}/{name}")).json())

    async def node(self, name: str) -> dict[str, str]:
        """Return the annotations of a node."""
        return dict((await self.call("GET", f"/api/v1/nodes/{name}")).json()["metadata"].get("annotations", {}))

    async def annotate_node(self, name: str, annotations: Object) -> None:
        """Write annotations of a node."""
        patch = {"metadata": {"annotations": annotations}}
        answer = await self.call("PATCH", f"/api/v1/nodes/{name}", patch, content_type="application/merge-patch+json")
        assert answer.ok

    async def events(self) -> list[tuple[str, str]]:
        """Return reason and note of all events, as soon as those that are queued are written."""
        await asyncio.wait_for(self.reporter._queue.join(), 5)
        items = (await self.call("GET", "/apis/events.k8s.io/v1/events")).json()["items"]
        return [(item["reason"], item["note"]) for item in items]

    async def tells(self, reason: str, text: str = "") -> bool:
        """Tell whether there is an event of a reason whose note contains a text."""
        return any(found == reason and text in note for found, note in await self.events())

    def sent(self, verb: str, resource: str, *, dry_run: bool = False) -> int:
        """Count our requests."""
        return self.cluster.requests.total(user_agent=AGENT, verb=verb, resource=resource, dry_run=dry_run)

    # Ours ------------------------------------------------------------------------------------------------------------

    def submit(self) -> int:
        """Have everything that is active decided and bound; return how many were placed."""
        placed = 0
        while decisions := self.engine.schedule_next(self.clock.monotonic()):
            if decisions[0].placement is not None:
                self.binder.submit(*decisions)
                placed += len(decisions)
        return placed

    async def until(self, condition: Callable[[], object | Awaitable[object]], within: float = 30.0) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(within):
            while True:
                holds = condition()
                if isinstance(holds, Awaitable):
                    holds = await holds
                if holds:
                    return
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Stop everything."""
        await self.binder.stop(0.0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.reporter.stop(1.0)


@contextlib.contextmanager
def devcluster() -> Iterator[DevCluster]:
    """Serve a devcluster for the time of a test."""
    with DevCluster.thread() as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def bench(folder: Path, **options: Any) -> AsyncIterator[Bench]:
    """Set a bench up, with two nodes of two cards each."""
    with devcluster() as cluster:
        api = await connect(str(cluster.kubeconfig(folder / "kubeconfig")), None, AGENT)
        try:
            async with NodeSide(cluster.url) as nodes:
                await nodes.register(["node-a", "node-b"], ("T4", "T4"))
                made = Bench(cluster, api, nodes, **options)
                made.reporter.start()
                try:
                    yield made
                finally:
                    await made.close()
        finally:
            await api.close()
