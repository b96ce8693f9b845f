"""One replica at work: everything that talks to the API server, started in order and stopped in order.

Order of the start: a first sweep, watches that go on from there, the Lease, a second sweep, then decisions. The second
sweep comes after the Lease was won, so that whatever the last leader bound is known before the first decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from vgpu_scheduler.apiclient import Clock, end_tasks
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
    errors_logged,
)
from vgpu_scheduler.engine import Engine, ObservationSignals, UsageMeter
from vgpu_scheduler.intake import (
    BUDGETS,
    NODES,
    POD_GROUPS,
    PODS,
    SELECTING,
    SWEPT,
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
from vgpu_scheduler.runtime.metrics import add_history, add_metrics, add_preemption, add_requests
from vgpu_scheduler.runtime.pool_metrics import add_pools, add_usage
from vgpu_scheduler.runtime.recorder import Recorder
from vgpu_scheduler.runtime.scheduling import DecisionHandlers, SchedulingLoop
from vgpu_scheduler.runtime.sweeps import Sweeps
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry import OTHER, Metrics

log = logging.getLogger(__name__)

_KINDS: tuple[Kind[Any], ...] = (NODES, PODS, VOLUME_CLAIMS, VOLUMES, *POD_GROUPS)
_ANSWERED = {kind.name: kind for kind in _KINDS}
"""The kinds that writes are answered with."""
_GRACE = 5.0
"""Seconds for binds under way at the end."""
_METER_PACE = 5.0
"""Seconds after which it is looked again who holds which cards."""


def binder_options(settings: Settings, *, label_first: bool) -> BinderOptions:
    """Return how pods are bound; a Binding ends well before the lease does."""
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
    """Watches, and decides and binds while it leads.

    Parameters
    ----------
    settings
        Every setting.
    engine
        What is known and what is decided from it.
    connection
        The API server, and what is known of it.
    clock
        The time.
    metrics
        Where the parts count.
    take_signals
        Called after kopf was started: it takes the signal handlers of the process.
    hooks
        Who else is told of binds.
    recorder
        Writes down what happens while this replica leads; None where nobody does.
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
        recorder: Recorder | None = None,
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
        self._recorder = recorder
        self._observer = Observer(engine, clock.monotonic, signals, self._reporter.problem, listener=recorder)
        withdrawn = {} if recorder is None else {"withdrawn": recorder.withdrawn}
        context = BindContext(
            api, engine, self._reporter, clock, self._elector.may_write, self._observe, signals, **withdrawn
        )
        options = binder_options(settings, label_first=connection.label_first)
        self._binder, timeout = Binder(context, options, hooks), options.timeout
        beside = (inventory_kind(kind.name, kind.path) for kind in engine.dialects.inventory_kinds)
        selecting = SELECTING if engine.system_spread else ()
        budgets = (BUDGETS,) if engine.preemption else ()
        self._optional: list[Kind[Any]] = [*beside, *selecting, *budgets]
        self._sweeps = Sweeps(api, engine, self._observer, settings.sweep_interval, self._swept, self._dispensable)
        engine.storage.unknown()
        self._storage = StorageStreams(api, self._observer, self._sweeps.ask)
        self._evictor = Evictor(context, timeout, self._binder.leave)
        self._group_status = GroupStatusWriter(context, timeout)
        whole, answers = metrics.attempts.group_whole, self._evictor.stats.answers
        self._group_follow_up = GroupFollowUp(context, timeout, whole, answers)
        hands = DecisionHandlers(self._binder, self._evictor, self._reporter)
        told = {} if recorder is None else {"on_decisions": recorder.decided}
        self._loop = SchedulingLoop(engine, hands, clock, metrics.attempts, signals, **told)
        self._deciding = False
        self.missing = "starting"
        """What is still missing until it is ready; empty when it is."""
        add_metrics(metrics, engine, self._binder, self._reporter, self._observer, self._elector)
        add_pools(metrics, engine, settings.metrics_label_values, clock.monotonic)
        self._meter = UsageMeter(engine.state, engine.dialects, settings.metrics_label_values, OTHER)
        add_usage(metrics, self._meter, clock.monotonic)
        add_preemption(metrics, engine, self._evictor)
        add_requests(metrics, api)
        if recorder is not None:
            add_history(metrics, recorder.stats)

    async def run(self) -> None:
        """Work until the Lease is lost or the task is cancelled, and tidy up."""
        self._reporter.start()
        watchers: list[asyncio.Task[None]] = []
        leader: list[asyncio.Task[None]] = []
        try:
            await self._sweeps.sweep()
            self.missing = ""  # a warm standby is ready
            settle_memory()
            watchers = start(self._watchers())
            leader = start([("leader", self._lead())])
            done, _ = await asyncio.wait({*leader, *watchers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a watcher never ends by itself
        finally:
            self.missing = "stopping"
            await end_tasks(leader)
            await self._evictor.stop()
            await self._binder.stop(_GRACE if self._elector.leading else 0.0)
            await self._elector.release()  # a successor need not wait until all events are written
            await self._reporter.stop(_GRACE)
            if self._recorder is not None:
                await asyncio.to_thread(self._recorder.join)
            await end_tasks(watchers, grace_period=1.0)  # they have nothing to tidy up

    def _observe(self, kind: str, answer: Encoded) -> None:
        """Take in an object that an answer shows."""
        self._observer.observe_answer(_ANSWERED[kind], answer)

    def _swept(self) -> tuple[Kind[Any], ...]:
        return (*self._optional, *SWEPT)

    def _dispensable(self) -> Sequence[Kind[Any]]:
        """Return the kinds without which all pods can be decided but those that name such objects."""
        return (*POD_GROUPS, *self._storage.kinds)

    def stalled_for(self) -> float:
        """Return for how many seconds the scheduling loop has not turned; 0 for a standby, which does not turn it."""
        return self._clock.monotonic() - self._loop.beat if self._deciding else 0.0

    async def _lead(self) -> None:
        """Decide while the Lease is held."""
        # Deletions that were missed are looked for from now on, by a standby as by the leader.
        await until_first_ends(("sweeps", self._sweeps.run()), ("leader", self._hold_and_decide()))

    async def _hold_and_decide(self) -> None:
        """Wait for the Lease, then decide until it is lost."""
        await self._elector.acquire()
        # Renewed from the moment that it is held: the sweep takes as long as the API server does.
        await until_first_ends(("lease", self._elector.renew_until_lost()), ("decisions", self._decide()))

    async def _decide(self) -> None:
        """Learn what the last leader did, then decide."""
        await self._sweeps.sweep(unknown=False)
        await self._binder.look_at_closed_nodes()
        await self._resume_preemptions()
        self._loop.beat = self._clock.monotonic()
        self._deciding = True
        if self._recorder is not None:
            self._recorder.begin()
        try:
            await until_first_ends(
                ("scheduling", self._loop.run()),
                ("policy-status", self._policy_status().run()),
                ("group-status", self._group_status.run()),
                ("group-follow-up", self._group_follow_up.run()),
                ("preemptions", self._evictor.run()),
                ("usage-meter", self._meter_usage()),
            )
        finally:
            if self._recorder is not None:
                self._recorder.stop()

    async def _meter_usage(self) -> None:
        """Add up what namespaces hold of cards while this replica leads."""
        with errors_logged(log, "usage meter"):
            self._meter.start(self._clock.monotonic())
        while True:
            await asyncio.sleep(_METER_PACE)
            with errors_logged(log, "usage meter"):
                self._meter.advance(self._clock.monotonic())

    async def _resume_preemptions(self) -> None:
        """Keep the room that the last leader kept, and go on with the evictions that it began."""
        evaluator = self._engine.preemptions.evaluator
        evaluator.unix_ahead = self._clock.now().timestamp() - self._clock.monotonic()
        if self._engine.preemption:
            await self._evictor.take_over()

    def _policy_status(self) -> PolicyStatusWriter:
        policy_tracker = self._engine.policy_tracker
        return PolicyStatusWriter(
            self._api,
            self._clock,
            lambda: policy_tracker.report(self._engine.scheduler_names),
            lambda: policy_tracker.generation,
            self._settings.policy_status_interval,
        )

    def _watchers(self) -> list[Named]:
        credentials, observer, lost_track = self._api.credentials, self._observer, self._sweeps.ask
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
        found.append(("final-states", FinalStateReader(self._api, observer).run()))
        for kind in (NODES, *self._optional, *POD_GROUPS):
            stream = ObjectStream(self._api, kind, observer, lost_track, listed(kind.name))
            found.append((kind.name, stream.run()))
        return found


Named = tuple[str, Coroutine[Any, Any, None]]


def start(works: Sequence[Named]) -> list[asyncio.Task[None]]:
    """Start works under their names."""
    return [asyncio.create_task(work, name=name) for name, work in works]


async def until_first_ends(*works: Named) -> None:
    """Run works until the first of them ends, end the others, and raise what that one raised."""
    tasks = start(works)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(tasks)
