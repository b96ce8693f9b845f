"""The operator: everything put together, started in order and stopped in order.

Order of the start: kernels warm, streams open, a first sweep, the Lease, a second sweep, then decisions. The second
sweep comes after the Lease was won, so that whatever the last leader bound is known before the first decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, connect
from vgpu_scheduler.binding import Binder, BinderOptions, EventSource, PolicyStatusWriter, Reporter, Step, SystemClock
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake import (
    KopfSource,
    PodReflector,
    PolicySource,
    Sink,
    list_all_namespaces,
    list_all_nodes,
    list_all_pods,
    list_all_policies,
    list_all_quotas,
)
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.runtime.assembly import add_metrics, admission_server, make_dialect, policy_defaults
from vgpu_scheduler.runtime.elector import Elector, LeaseOptions
from vgpu_scheduler.runtime.scheduling import SchedulingLoop
from vgpu_scheduler.runtime.warmup import warm_up
from vgpu_scheduler.settings import Settings, parse_address
from vgpu_scheduler.telemetry import Health, Metrics, hami_metrics, serve

log = logging.getLogger(__name__)

_STALLED = 30.0
"""Seconds without a turn of the scheduling loop after which the process should be restarted."""
_GRACE = 5.0
"""Seconds for binds under way at the end."""
_LABELS_SINCE = (1, 35)
"""Kubernetes merges the labels of a Binding since this version."""
_TELLINGS = 10
"""How often a task is told to end before it is left behind."""
_SLICE = 200
"""Pods of a sweep between two looks at everything else."""
_SWEEP_DELAY = 1.0
"""Seconds between a request for a sweep and the sweep, so that many requests make one."""


class Operator:
    """The running operator.

    Parameters
    ----------
    settings
        Every setting.
    on_step
        Awaited at each step of each bind; for tests that crash there.
    """

    def __init__(self, settings: Settings, on_step: Callable[[Step, Pod], Awaitable[None]] | None = None) -> None:
        self.settings = settings
        self._on_step = on_step
        self._clock = SystemClock()
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._dialect = make_dialect(settings)
        self.engine = Engine(
            self._dialect,
            Policies(policy_defaults(settings)),
            settings.scheduler_names,
            settings.coexist_with,
        )
        self.metrics = Metrics(settings.scheduler_names[0])
        self._missing = "starting"
        self._sweep_wanted = asyncio.Event()
        self._stop = asyncio.Event()
        self._loop: SchedulingLoop | None = None
        self._deciding = False
        self.port = 0

    async def run(self) -> bool:
        """Run until SIGTERM or SIGINT, or until the Lease is lost; True if the end was asked for."""
        self._take_signals()
        health = Health(self._alive, lambda: self._missing)
        also = self.settings.metrics_address
        runner, self.port = await serve(
            [(self.settings.http_host, self.settings.http_port), *([parse_address(also)] if also else [])],
            health,
            self.metrics,
            self._pages(),
            partial(hami_metrics, self.engine.state) if self.settings.hami_metrics else lambda: iter(()),
        )
        log.info("vgpu-scheduler %s serves health and metrics on port %d", __version__, self.port)
        await asyncio.to_thread(warm_up)
        api = await connect(
            str(self.settings.kubeconfig) if self.settings.kubeconfig else None,
            self.settings.context,
            f"vgpu-scheduler/{__version__}",
        )
        work = asyncio.create_task(self._run(api), name="operator")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (error := work.exception()):
                log.error("the operator ended", exc_info=error)
            return self._stop.is_set()
        finally:
            await _end([work, stopping])
            await api.close()
            await runner.cleanup()

    async def _run(self, api: ApiClient) -> None:
        """Work until the Lease is lost or the task is cancelled, and tidy up."""
        lease, bind = self.settings.lease, self.settings.bind
        elector = Elector(
            api,
            LeaseOptions(lease.name, lease.namespace, lease.duration, lease.renew_interval),
            self.identity,
            self._clock,
        )
        reporter = Reporter(api, EventSource(self.settings.scheduler_names[0], self.identity), self._clock)
        options = BinderOptions(
            timeout=min(bind.timeout, lease.duration / 3),
            longest_wait=bind.longest_wait,
            patience=bind.patience,
            unlocked=bind.unlocked,
            label_first=await self._labels_first(api),
        )
        binder = Binder(
            api,
            self.engine,
            reporter,
            self._clock,
            elector.may_write,
            options,
            self._on_step,
            self.metrics.attempts.scheduled,
        )
        sink = Sink(self.engine, self._clock.monotonic, binder.node_moved, binder.wake.set, reporter.problem)
        self._loop = SchedulingLoop(self.engine, binder, reporter, self._clock, self.metrics.attempts)
        add_metrics(self.metrics, self.engine, binder, reporter, sink, elector)
        reporter.start()
        watchers = [asyncio.create_task(work, name=name) for name, work in self._watchers(api, sink)]
        leader = asyncio.create_task(self._lead(api, elector, self._loop), name="leader")
        try:
            done, _ = await asyncio.wait({leader, *watchers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a watcher never ends by itself
        finally:
            self._missing = "stopping"
            await _end([leader])
            await binder.stop(_GRACE if elector.leading else 0.0)
            await reporter.stop(_GRACE)
            await elector.release()
            await _end(watchers, patience=1.0)  # they have nothing to tidy up

    async def _lead(self, api: ApiClient, elector: Elector, loop: SchedulingLoop) -> None:
        """Follow the order of the start, then decide until the Lease is lost."""
        await self._sweep(api)
        self._missing = ""  # a warm standby is ready
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)  # thousands of live objects make full collections the largest cost
        await elector.acquire()
        # Renewed from the moment that it is held: the sweep takes as long as the API server does.
        await _first_of(("lease", elector.hold()), ("decisions", self._decide(api, loop)))

    async def _decide(self, api: ApiClient, loop: SchedulingLoop) -> None:
        """Learn what the last leader did, then decide."""
        await self._sweep(api)
        loop.beat = self._clock.monotonic()
        self._deciding = True
        await _first_of(
            ("scheduling", loop.run()),
            ("sweeps", self._keep_sweeping(api)),
            ("policy-status", self._policy_status(api).run()),
        )

    def _watchers(self, api: ApiClient, sink: Sink) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        names = self.settings.scheduler_names
        sources = [
            KopfSource(
                api.credentials,
                sink,
                name,
                nodes=number == 0,
                lost_track=self._sweep_wanted.set,
                after_spawn=self._take_signals,
            )
            for number, name in enumerate(names)
        ]
        others = PodReflector(api, sink, names, self._sweep_wanted.set)
        policies = PolicySource(
            api.credentials, sink, lost_track=self._sweep_wanted.set, after_spawn=self._take_signals
        )
        self._sink = sink
        admission = admission_server(
            self.settings,
            api.credentials,
            self.engine,
            self._dialect,
            self.metrics,
            self._take_signals,
            sink.stats.restarted,
        )
        return [
            *([("kopf-admission", admission.run())] if admission else []),
            *((f"kopf-{name}", source.run()) for name, source in zip(names, sources, strict=True)),
            ("others", others.run()),
            ("kopf-policies", policies.run()),
        ]

    async def _sweep(self, api: ApiClient) -> None:
        """Bring everything in line with consistent lists, however long the API server takes to give them.

        Raises
        ------
        RuntimeError
            If the store was restored from an older copy: watches would stay deaf until it catches up.
        """
        while True:
            unreadable: set[str] = set()
            try:
                # Policies and quotas first: no pod may be decided before what is in force for it is known.
                in_force = self.engine.in_force
                gone = in_force.sweep(*await list_all_policies(api))
                gone += in_force.sweep_namespaces(*await list_all_namespaces(api))
                gone += self._sink.sweep_quotas(*await list_all_quotas(api))
                nodes, nodes_version = await list_all_nodes(api, unreadable)
                pods, pods_version = await list_all_pods(api, unreadable=unreadable)
            except (ApiError, ApiUnreachableError) as error:
                log.warning("sweep: %s", error)
                await asyncio.sleep(_SWEEP_DELAY)
                continue
            self._sink.stats.undecodable += len(unreadable)
            for number, pod in enumerate(pods):
                self._sink.pod(pod)
                if number % _SLICE == 0:  # a large cluster must not stop everything else
                    await asyncio.sleep(0)
            now = self._clock.monotonic()
            gone += self.engine.sweep_nodes(nodes, nodes_version, now, unreadable)
            gone += self.engine.sweep_pods(pods, pods_version, now, unreadable)
            self._sink.stats.swept += gone
            for name in self.engine.closed_nodes:
                self._sink.moved(name)  # a leader looks after them, and this may be its first sweep
            self._sink.changed()
            if self.engine.epoch:
                raise RuntimeError("the API server's store was restored from an older copy: starting anew")
            return

    def _policy_status(self, api: ApiClient) -> PolicyStatusWriter:
        in_force = self.engine.in_force
        return PolicyStatusWriter(
            api,
            self._clock,
            lambda: in_force.report(self.engine.scheduler_names),
            lambda: in_force.generation,
            self.settings.policy_status_interval,
        )

    async def _keep_sweeping(self, api: ApiClient) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.sweep_interval):
                    await self._sweep_wanted.wait()
                await asyncio.sleep(_SWEEP_DELAY)
            audit = not self._sweep_wanted.is_set()
            self._sweep_wanted.clear()
            await self._sweep(api)
            if audit:
                self._sink.stats.drift = len(self.engine.state.drift())

    async def _labels_first(self, api: ApiClient) -> bool:
        """Tell whether the API server is too old to merge the labels of a Binding; waits until it answers."""
        while True:
            try:
                response = await api.request("GET", "/version")
                if response.ok:
                    version = response.json()
                    minor = "".join(filter(str.isdigit, version["minor"]))
                    return (int(version["major"]), int(minor)) < _LABELS_SINCE
                log.warning("version: %s", response.message)
            except ApiUnreachableError as error:
                log.warning("%s", error)
            await asyncio.sleep(1.0)

    def _alive(self) -> str:
        if self._loop is None:
            return ""
        behind = self._clock.monotonic() - self._loop.beat
        # A standby does not turn it; it is as alive as can be.
        return f"the scheduling loop has not turned for {behind:.0f} s" if self._deciding and behind > _STALLED else ""

    def _take_signals(self) -> None:
        """Handle the ends that are asked for; kopf takes the handlers whenever it starts, so they are taken back."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
                running.add_signal_handler(number, self._stop.set)

    def _pages(self) -> dict[str, Callable[[], object]]:
        pages: dict[str, Callable[[], object]] = {"/configz": lambda: self.settings.model_dump(mode="json")}
        if self.settings.debug_endpoints:
            state = self.engine.state
            pages["/debug/ledger"] = lambda: {"ledger": state.ledger(), "drift": state.drift()}
        return pages

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()


async def _first_of(*works: tuple[str, Coroutine[Any, Any, None]]) -> None:
    """Run works until the first of them ends, end the others, and raise what that one raised."""
    tasks = [asyncio.create_task(work, name=name) for name, work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end(tasks)


async def _end(tasks: list[asyncio.Task[Any]], patience: float = 4 * _GRACE) -> None:
    """End tasks; those that have not after so many seconds are told again.

    Before Python 3.12 ``wait_for``, which kopf uses, may lose a cancellation. The patience leaves time to tidy up.
    """
    for _ in range(_TELLINGS):
        left = [task for task in tasks if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=patience)
