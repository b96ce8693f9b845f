"""One replica of the operator: starts and stops, in order, everything that talks to the API server.

The start-up order is: a first relist, watches that resume from it, the Lease, a second relist, then decisions. The
second relist runs after the Lease is won, so that every pod that the last leader bound is known before the first
decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final

from vgpu_scheduler.apiclient import Clock, end_tasks, errors_logged, unix_ahead
from vgpu_scheduler.binding import (
    BindContext,
    Binder,
    BinderHooks,
    BinderOptions,
    EventSource,
    Evictor,
    GroupFollowUp,
    GroupStatusWriter,
    PolicyStatusWriter,
    Reporter,
)
from vgpu_scheduler.engine import Engine, ObservationSignals, UsageMeter
from vgpu_scheduler.intake import (
    BUDGETS,
    NODES,
    POD_GROUPS,
    PODS,
    RELISTED_KINDS,
    SELECTING,
    VOLUME_CLAIMS,
    VOLUMES,
    FinalStateReader,
    Kind,
    ObjectStream,
    Observer,
    StorageStreams,
    inventory_kind,
    pod_selections,
)
from vgpu_scheduler.intake.kopf_source import KopfSource
from vgpu_scheduler.intake.policies import PolicySource
from vgpu_scheduler.kube import Encoded
from vgpu_scheduler.runtime.admission import admission_server
from vgpu_scheduler.runtime.assembly import Connection
from vgpu_scheduler.runtime.collecting import settle_memory
from vgpu_scheduler.runtime.elector import Elector, LeaseOptions
from vgpu_scheduler.runtime.metrics import add_history, add_metrics, add_preemption, add_relists, add_requests
from vgpu_scheduler.runtime.pool_metrics import add_pools, add_usage
from vgpu_scheduler.runtime.recorder import HistoryRecorder
from vgpu_scheduler.runtime.recording import NO_RECORDER, Recorder
from vgpu_scheduler.runtime.relist import Relister
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry import OTHER, Metrics

log = logging.getLogger(__name__)

_KINDS: tuple[Kind[Any], ...] = (NODES, PODS, VOLUME_CLAIMS, VOLUMES, *POD_GROUPS)
_ANSWERED = {kind.name: kind for kind in _KINDS}
"""The kinds of the objects that the API server returns in answers to our writes, by name."""
_GRACE = 5.0
"""Seconds that binds in flight get to finish at shutdown."""
PATIENCE: Final = 180.0
"""Seconds for which a new leader tries to list a kind, before it gives the Lease up and the process ends. It competes
for the Lease again only after a first relist, so two replicas cannot pass it to and fro while neither can list."""
_WRITTEN_WITHIN = 1.0
"""Seconds that the Lease is held at shutdown until the last rows of the history are written."""
_METER_PACE = 5.0
"""Seconds between two updates of the usage meter."""


class _Stage(Enum):
    """What a replica is doing, in the words of its readiness probe."""

    STARTING = "starting"
    READY = ""
    """It is a warm standby, or decides."""
    TAKING_OVER = "it leads, and decides nothing yet"
    STOPPING = "stopping"


def binder_options(settings: Settings, *, label_first: bool) -> BinderOptions:
    """Return the options of the binder; the Binding timeout is at most a third of the lease duration."""
    bind = settings.bind
    return BinderOptions(
        timeout=min(bind.timeout, settings.lease.duration / 3),
        node_side_timeout=bind.node_side_timeout,
        poll_interval=bind.poll_interval,
        volume_wait=bind.volume_wait,
        max_unlocked_binds=bind.max_unlocked_binds,
        label_first=label_first,
    )


class Replica:
    """A replica: it always watches, and decides and binds while it is the leader.

    Parameters
    ----------
    settings
        Every setting.
    engine
        The engine: cluster state and scheduling decisions.
    connection
        The connection to the API server.
    clock
        The time.
    metrics
        The metrics that this replica fills.
    take_signals
        Called after each start of kopf, because kopf replaces the signal handlers of the process.
    hooks
        Called during binds.
    recorder
        Records what is observed and decided while this replica leads; None to record nothing.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        settings: Settings,
        engine: Engine,
        connection: Connection,
        clock: Clock,
        metrics: Metrics,
        take_signals: Callable[[], None],
        hooks: BinderHooks,
        recorder: HistoryRecorder | None = None,
    ) -> None:
        api, lease = connection.api, settings.lease
        self._settings = settings
        self._engine = engine
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._take_signals = take_signals
        self._elector = Elector(
            api,
            LeaseOptions(lease.name, lease.namespace, lease.duration, lease.renew_interval),
            connection.identity,
            clock,
        )
        self._reporter = Reporter(
            api,
            EventSource(settings.scheduler_names[0], connection.identity, settings.runbook_url),
            clock,
            lambda: self._elector.leading,
            observes_generation=connection.observes_generation,
        )
        signals = ObservationSignals()
        self._observer = Observer(engine, clock.monotonic, signals, self._reporter.problem, listener=recorder)
        self._recorder: Recorder = NO_RECORDER if recorder is None else recorder
        withdrawn, may_write = self._recorder.withdrawn, self._elector.may_write
        context = BindContext(api, engine, self._reporter, clock, may_write, self._observe, signals, withdrawn)
        options = binder_options(settings, label_first=connection.label_first)
        self._binder, timeout = Binder(context, options, hooks), options.timeout
        inventories = map(inventory_kind, engine.dialects.inventory_kinds)
        selecting = SELECTING if engine.system_spread else ()
        budgets = (BUDGETS,) if engine.preemption else ()
        self._by_settings: list[Kind[Any]] = [*inventories, *selecting, *budgets]
        """The kinds that some settings need."""
        self._relister = Relister(api, engine, self._observer, settings.sweep_interval, self._relisted)
        engine.storage.mark_unsynced()
        self._storage = StorageStreams(api, self._observer, self._relister.request_relist)
        self._evictor = Evictor(context, timeout, self._binder.cancel_unsent)
        tracker = engine.policy_tracker
        self._policy_status = PolicyStatusWriter(
            context,
            lambda: tracker.report(engine.scheduler_names),
            lambda: tracker.generation,
            settings.policy_status_interval,
            timeout,
        )
        self._group_status = GroupStatusWriter(context, timeout)
        whole, answers = metrics.attempts.group_whole, self._evictor.stats.answers
        self._group_follow_up = GroupFollowUp(context, timeout, whole, answers)
        handlers = DecisionHandlers(self._binder, self._evictor, self._reporter)
        decided = self._recorder.decided
        self._loop = SchedulingLoop(engine, handlers, clock, metrics.attempts, signals, decided, withdrawn)
        self._deciding = False
        self._stage = _Stage.STARTING
        self._meter = UsageMeter(engine.state, engine.dialects, settings.metrics_label_values, OTHER)
        self._add_metrics()
        if recorder is not None:
            add_history(metrics, recorder.stats)

    def _add_metrics(self) -> None:
        metrics, engine, monotonic = self._metrics, self._engine, self._clock.monotonic
        add_metrics(metrics, engine, self._binder, self._reporter, self._observer, self._elector)
        add_pools(metrics, engine, self._settings.metrics_label_values, monotonic)
        add_usage(metrics, self._meter, monotonic)
        add_preemption(metrics, engine, self._evictor)
        add_requests(metrics, self._api)
        add_relists(metrics, self._relister)

    async def run(self) -> None:
        """Work until the Lease is lost or the task is cancelled, and tidy up."""
        self._reporter.start()
        watchers: list[asyncio.Task[None]] = []
        leader: list[asyncio.Task[None]] = []
        try:
            await self._relister.relist()
            self._stage = _Stage.READY
            settle_memory()
            watchers = start(self._watchers())
            leader = start([("leader", self._lead())])
            done, _ = await asyncio.wait({*leader, *watchers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a watcher never ends by itself
        finally:
            self._stage = _Stage.STOPPING
            await end_tasks(leader)
            await self._evictor.stop()
            await self._binder.stop(_GRACE if self._elector.leading else 0.0)
            # Before the Lease is released, or the next leader may convert the file before its last rows are written.
            await self._recorder.wait_until_written(_WRITTEN_WITHIN)
            await self._elector.release()  # before the reporter stops: a successor need not wait for our events
            await self._reporter.stop(_GRACE)
            await self._recorder.wait_until_written()
            await end_tasks(watchers, grace_period=1.0)  # they have nothing to clean up

    def _observe(self, kind: str, answer: Encoded) -> None:
        """Observe an object that the API server returned in an answer."""
        self._observer.observe_answer(_ANSWERED[kind], answer)

    def _relisted(self) -> tuple[Kind[Any], ...]:
        return (*POD_GROUPS, *self._storage.kinds, *self._by_settings, *RELISTED_KINDS)

    @property
    def missing(self) -> str:
        """Why the replica is not ready; empty once it is. A new leader is not ready while it waits for a list."""
        stage, problem = self._stage, self._relister.problem
        if stage is _Stage.READY or (stage is _Stage.TAKING_OVER and not problem):
            return ""
        return f"{stage.value}: {problem}" if problem else stage.value

    def stalled_for(self) -> float:
        """Return the seconds since the last iteration of the scheduling loop; 0 on a standby, which runs none."""
        return self._clock.monotonic() - self._loop.beat if self._deciding else 0.0

    async def _lead(self) -> None:
        """Decide while the Lease is held."""
        # Standby and leader both relist from now on, because either may miss deletions.
        await until_first_ends(("relists", self._relister.run()), ("leader", self._hold_and_decide()))

    async def _hold_and_decide(self) -> None:
        """Wait for the Lease, then decide until it is lost."""
        await self._elector.acquire()
        # Renew from the moment the Lease is acquired: the relist takes as long as the API server needs.
        await until_first_ends(("lease", self._elector.renew_until_lost()), ("decisions", self._decide()))

    async def _decide(self) -> None:
        """Relist to learn what the last leader bound, then decide."""
        self._stage = _Stage.TAKING_OVER
        await self._relister.relist(unknown=False, patience=PATIENCE)
        self._stage = _Stage.READY
        await self._binder.look_at_closed_nodes()
        await self._resume_preemptions()
        self._loop.beat = self._clock.monotonic()
        self._deciding = True
        self._recorder.begin()
        try:
            await until_first_ends(
                ("scheduling", self._loop.run()),
                ("policy-status", self._policy_status.run()),
                ("group-status", self._group_status.run()),
                ("group-follow-up", self._group_follow_up.run()),
                ("preemptions", self._evictor.run()),
                ("usage-meter", self._meter_usage()),
            )
        finally:
            self._recorder.stop()

    async def _meter_usage(self) -> None:
        """Keep the usage meter of namespaces up to date while this replica leads."""
        with errors_logged(log, "usage meter"):
            self._meter.start(self._clock.monotonic())
        while True:
            await asyncio.sleep(_METER_PACE)
            with errors_logged(log, "usage meter"):
                self._meter.advance(self._clock.monotonic())

    async def _resume_preemptions(self) -> None:
        """Restore the reservations for preemptors of the last leader, and continue its evictions."""
        self._engine.preemptions.evaluator.unix_ahead = unix_ahead(self._clock)
        if self._engine.preemption:
            await self._evictor.take_over()

    def _watchers(self) -> list[Named]:
        credentials, observer, lost_track = self._api.credentials, self._observer, self._relister.request_relist
        found: list[Named] = []
        admission = admission_server(
            self._settings, credentials, self._engine, self._metrics, self._take_signals, observer.stats.restarted
        )
        if admission is not None:
            found.append(("kopf-admission", admission.run()))
        for number, name in enumerate(self._settings.scheduler_names):
            source = KopfSource(
                credentials,
                observer,
                name,
                nodes=number == 0,
                lost_track=lost_track,
                after_spawn=self._take_signals,
            )
            found.append((f"kopf-{name}", source.run()))
        policies = PolicySource(credentials, observer, lost_track=lost_track, after_spawn=self._take_signals)
        found.append(("kopf-policies", policies.run()))
        found.append(("storage", self._storage.run()))
        listed = self._engine.lists.listed
        for selection in pod_selections(self._engine.scheduler_names, self._engine.coexist_with):
            pods = ObjectStream(self._api, PODS, observer, lost_track, listed(PODS.name), selection)
            found.append((f"{selection.name}-pods", pods.run()))
        reader = FinalStateReader(self._api, observer, is_unsent=self._binder.is_unsent)
        observer.signals.selection_left.listen(reader.selection_left)
        found.append(("final-states", reader.run()))
        for kind in (NODES, *self._by_settings, *POD_GROUPS):
            stream = ObjectStream(self._api, kind, observer, lost_track, listed(kind.name))
            found.append((kind.name, stream.run()))
        return found


Named = tuple[str, Coroutine[Any, Any, None]]


def start(works: Sequence[Named]) -> list[asyncio.Task[None]]:
    """Start coroutines as named tasks."""
    return [asyncio.create_task(work, name=name) for name, work in works]


async def until_first_ends(*works: Named) -> None:
    """Run coroutines until the first one ends, cancel the others, and raise the error of the first one, if any."""
    tasks = start(works)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(tasks)
