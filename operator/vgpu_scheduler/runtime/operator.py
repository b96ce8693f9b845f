"""The operator as a process: serves health and metrics, compiles the kernels, then runs a replica until the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, SystemClock, connect, end_tasks, served_version
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.dialects.hami import hami_metrics
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.assembly import Connection, engine_options
from vgpu_scheduler.runtime.collecting import release_compiler_pages, tune_garbage_collector
from vgpu_scheduler.runtime.metrics import binder_hooks
from vgpu_scheduler.runtime.recorder import make_recorder
from vgpu_scheduler.runtime.relist import drift, ledger
from vgpu_scheduler.runtime.replica import Replica
from vgpu_scheduler.runtime.tracing import pod_traces
from vgpu_scheduler.runtime.warmup import warm_up
from vgpu_scheduler.settings import Settings, parse_address
from vgpu_scheduler.telemetry import Health, Metrics, Page, serve

log = logging.getLogger(__name__)

_STALLED = 30.0
"""Seconds without an iteration of the scheduling loop after which the liveness probe fails."""


class Operator:
    """The running operator.

    Parameters
    ----------
    settings
        Every setting.
    at_point
        Awaited at each hook point of each bind; tests crash the operator there.
    """

    def __init__(self, settings: Settings, at_point: Callable[[HookPoint, Pod], Awaitable[None]] | None = None) -> None:
        self.settings = settings
        self._clock = SystemClock()
        self.engine = Engine(engine_options(settings))
        self.metrics = Metrics()
        self._at_point = at_point
        self._traces = pod_traces(settings.tracing, self._clock)
        self._recorder = make_recorder(settings, self.engine, self._clock, uuid.uuid4().hex[:8])
        self._replica: Replica | None = None
        self._stop = asyncio.Event()

    async def run(self) -> bool:
        """Run until SIGTERM or SIGINT, or until the Lease is lost; return True if a signal ended it."""
        self._take_signals()
        tune_garbage_collector()
        also = self.settings.metrics_address
        runner, port = await serve(
            [(self.settings.http_host, self.settings.http_port), *([parse_address(also)] if also else [])],
            Health(self._alive, self._ready),
            self.metrics,
            self._pages(),
            self._hami_metrics,
        )
        log.info("vgpu-scheduler %s serves health and metrics on port %d", __version__, port)
        await asyncio.to_thread(warm_up)
        release_compiler_pages()
        api = await connect(
            str(self.settings.kubeconfig) if self.settings.kubeconfig else None,
            self.settings.context,
            f"vgpu-scheduler/{__version__}",
        )
        work = asyncio.create_task(self._work(api), name="operator")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (error := work.exception()):
                log.error("the operator ended", exc_info=error)
            return self._stop.is_set()
        finally:
            await end_tasks([work, stopping])
            await api.close()
            await runner.cleanup()
            if self._traces is not None:
                await self._traces.close()

    async def _work(self, api: ApiClient) -> None:
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        connection = Connection(api, identity, await server_version(api))
        hooks = binder_hooks(self.metrics.attempts, self._at_point, self._traces.record if self._traces else None)
        self._replica = Replica(
            self.settings,
            self.engine,
            connection,
            self._clock,
            self.metrics,
            self._take_signals,
            hooks,
            self._recorder,
        )
        await self._replica.run()

    def stop(self) -> None:
        """Ask the operator to stop."""
        self._stop.set()

    def _hami_metrics(self) -> Iterator[str]:
        """Return the metrics of HAMi's scheduler, if they are enabled; only the leader shows them."""
        shown = self.settings.hami_metrics and "hami" in self.settings.dialects and self.metrics.leads()
        return hami_metrics(self.engine.state) if shown else iter(())

    def _alive(self) -> str:
        stalled = self._replica.stalled_for() if self._replica else 0.0
        return f"the scheduling loop has made no progress for {stalled:.0f} s" if stalled > _STALLED else ""

    def _ready(self) -> str:
        return self._replica.missing if self._replica else "starting"

    def _take_signals(self) -> None:
        """Handle SIGTERM and SIGINT; called again after each start of kopf, which installs its own handlers."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # e.g. outside the main thread
                running.add_signal_handler(number, self._stop.set)

    def _pages(self) -> dict[str, Page]:
        async def configuration() -> object:
            return self.settings.model_dump(mode="json")

        async def books() -> object:
            state = self.engine.state
            return {"ledger": await ledger(state), "drift": await drift(state)}

        async def tasks() -> object:
            return {"tasks": len(asyncio.all_tasks())}

        pages: dict[str, Page] = {"/configz": configuration}
        if self.settings.debug_endpoints:
            pages |= {"/debug/ledger": books, "/debug/tasks": tasks}
        return pages


async def server_version(api: ApiClient) -> tuple[int, int]:
    """Return the version whose features the API server has; retry until it answers."""
    while True:
        try:
            response = await api.request("GET", "/version")
            version = served_version(response)
            if version is not None:
                return version
            log.warning("version: %s", response.message)
        except ApiUnreachableError as error:
            log.warning("%s", error)
        await asyncio.sleep(1.0)
