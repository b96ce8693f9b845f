"""Fill metrics with what the rooms count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient
from vgpu_scheduler.binding import (
    Binder,
    BinderHooks,
    BindingAnswer,
    BindTask,
    EvictionAnswer,
    Evictor,
    HookPoint,
    Reporter,
)
from vgpu_scheduler.engine import Engine, QueueName
from vgpu_scheduler.intake import Observer
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.elector import Elector
from vgpu_scheduler.runtime.recorder_files import RecorderStats
from vgpu_scheduler.runtime.relist import Relister
from vgpu_scheduler.state import Phase
from vgpu_scheduler.telemetry import AttemptMetrics, Metrics, catalogue

_Values = Iterator[tuple[dict[str, str], float]]


def binder_hooks(
    attempts: AttemptMetrics,
    at_point: Callable[[HookPoint, Pod], Awaitable[None]] | None = None,
    trace: Callable[[BindTask, Pod, BindingAnswer], None] | None = None,
) -> BinderHooks:
    """Return the hooks of the binder: metrics, traces, and a hook for tests that crash at a step."""

    def attempted(task: BindTask, pod: Pod, answer: BindingAnswer) -> None:
        bound = answer is BindingAnswer.BOUND
        result = "scheduled" if bound else "error"
        attempts.attempted(result, pod.scheduler_name, task.ended_at - task.decided_at)
        if bound:
            attempts.scheduled(task.attempts, task.ended_at - task.queued_at)
        if trace is not None:
            trace(task, pod, answer)

    def answered(pod: Pod, answer: BindingAnswer, seconds: float) -> None:
        attempts.answered("Success" if answer is BindingAnswer.BOUND else "Error", pod.scheduler_name, seconds)

    return BinderHooks(
        on_attempt=attempted,
        on_answer=answered,
        **({"at_point": at_point} if at_point else {}),
    )


def add_metrics(
    metrics: Metrics, engine: Engine, binder: Binder, reporter: Reporter, observer: Observer, elector: Elector
) -> None:
    """Register the metrics of the rooms; metrics about the cluster are shown only while this process leads."""
    metrics.leads = lambda: elector.leading
    _add_queue(metrics, engine)
    _add_knowledge(metrics, engine)
    _add_binding(metrics, binder, reporter)
    _add_intake(metrics, engine, observer)
    metrics.add_number(catalogue.LEADER, lambda: float(elector.leading))
    metrics.add(catalogue.BUILD_INFO, lambda: [({"version": __version__}, 1.0)])


def add_requests(metrics: Metrics, api: ApiClient) -> None:
    """Register the counts of the API server's answers."""
    host = urlsplit(api.credentials.server).netloc

    def requests() -> _Values:
        for (method, code), count in sorted(api.answers.items()):
            yield {"code": code, "method": method, "host": host}, count

    metrics.add(catalogue.API_REQUESTS, requests)


def add_relists(metrics: Metrics, relister: Relister) -> None:
    """Register which kinds cannot be listed."""

    def unlisted() -> _Values:
        for kind, failure in sorted(relister.failures.items()):
            yield {"kind": kind.lower(), "code": failure.code}, 1.0

    metrics.add(catalogue.UNLISTED_KINDS, unlisted)


def add_history(metrics: Metrics, stats: RecorderStats) -> None:
    """Register the metrics of the recorder."""

    def rows() -> _Values:
        yield {"result": "written"}, float(stats.written)
        yield {"result": "dropped"}, float(stats.dropped)

    metrics.add(catalogue.HISTORY_ROWS, rows)
    metrics.add_number(catalogue.HISTORY_FAILURES, lambda: stats.failed)


def add_preemption(metrics: Metrics, engine: Engine, evictor: Evictor) -> None:
    """Register the metrics of preemption and evictions."""
    stats = evictor.stats

    def evictions() -> _Values:
        for answer in EvictionAnswer:
            yield {"answer": answer.value}, stats.answers[answer]

    metrics.add_number(catalogue.PREEMPTION_ATTEMPTS, lambda: engine.preemptions.evaluator.attempts)
    metrics.add(catalogue.EVICTIONS, evictions)
    metrics.add_number(catalogue.OVERDUE_VICTIMS, lambda: stats.overdue)
    metrics.add_number(catalogue.LONGEST_PREEMPTION, lambda: stats.longest)


def _add_queue(metrics: Metrics, engine: Engine) -> None:
    queue = engine.queue

    def pending() -> _Values:
        for place, count in queue.counts().items():
            if place is not QueueName.IN_FLIGHT:
                yield {"queue": place.value}, count
        yield {"queue": "gated"}, engine.unbound_pods.gated

    def incoming() -> _Values:
        for (place, event), count in queue.incoming.items():
            yield {"queue": place.value, "event": event.value}, count

    def rejected() -> _Values:
        counts: Counter[tuple[str, str]] = Counter()
        for uid, plugin in queue.rejected():
            pod = engine.state.pod(uid)
            if pod is not None:
                counts[plugin, pod.scheduler_name] += 1
        for (plugin, profile), count in sorted(counts.items()):
            yield {"plugin": plugin, "profile": profile}, count

    metrics.add_number(catalogue.WAITING_GROUPS, lambda: engine.group_progress.waiting)
    metrics.add_number(catalogue.STALE_GROUPS, lambda: engine.group_progress.stale)
    metrics.add(catalogue.PENDING, pending)
    metrics.add(catalogue.INCOMING, incoming)
    metrics.add(catalogue.UNSCHEDULABLE, rejected)
    metrics.add_number(catalogue.AFTER_FLUSH, lambda: queue.placed_after_flush)


def _add_knowledge(metrics: Metrics, engine: Engine) -> None:
    state, closed = engine.state, engine.closed_nodes

    def known() -> _Values:
        phases = Counter(reservation.phase for reservation in state.reservations())
        yield {"type": "nodes"}, len(state.nodes)
        yield {"type": "pods"}, phases.total()
        yield {"type": "assumed_pods"}, phases[Phase.ASSUMED] + phases[Phase.IN_DOUBT]

    def unreadable() -> int:
        return sum(any(usage.problem for usage in reservation.uses.values()) for reservation in state.reservations())

    metrics.add(catalogue.CACHE_SIZE, known)
    metrics.add(
        catalogue.CLOSED_NODES,
        lambda: [({"cause": cause.value}, count) for cause, count in closed.counts().items()],
    )
    metrics.add(
        catalogue.REJECTED,
        lambda: [({"reason": reason}, count) for reason, count in closed.kubelet_rejections.counts.items()],
    )
    metrics.add_number(catalogue.NODES, lambda: len(state.nodes))
    metrics.add_number(catalogue.OVER_CAPACITY, lambda: len(state.over_capacity()))
    metrics.add_number(catalogue.UNREADABLE_PODS, unreadable)


def _add_binding(metrics: Metrics, binder: Binder, reporter: Reporter) -> None:
    def binds() -> _Values:
        yield {"result": "bound"}, binder.stats.bound
        yield {"result": "failed"}, binder.stats.failed
        yield {"result": "expired"}, binder.stats.expired
        yield {"result": "refitted"}, binder.stats.refitted
        yield {"result": "moved"}, binder.stats.moved

    def locks() -> _Values:
        yield {"outcome": "taken"}, binder.locker.stats.taken
        yield {"outcome": "refused"}, binder.locker.stats.refused
        yield {"outcome": "orphan_replaced"}, binder.locker.stats.orphans

    metrics.add(catalogue.BINDS, binds)
    metrics.add(catalogue.NODE_LOCKS, locks)
    metrics.add_number(catalogue.FENCED_PODS, lambda: binder.locker.fenced_pods)
    metrics.add_number(catalogue.BIND_DEPTH, lambda: binder.depth)
    metrics.add_number(catalogue.BIND_DEEPEST, lambda: binder.deepest)
    metrics.add_number(catalogue.REPORTS_DROPPED, lambda: reporter.dropped)
    metrics.add_number(catalogue.EVENTS_LIMITED, lambda: reporter.limited)


def _add_intake(metrics: Metrics, engine: Engine, observer: Observer) -> None:
    stats = observer.stats

    def observed() -> _Values:
        for kind in engine.kinds:
            yield {"kind": kind.lower()}, stats.observed[kind]

    of_all = ((kind, catalogue.PROBLEM_OF_ALL_KINDS) for kind in engine.kinds)
    never = dict.fromkeys((*catalogue.PROBLEMS_OF_KINDS, *of_all), 0)  # Prometheus sees no increase in a series from 1

    def problems() -> _Values:
        for (kind, reason), count in (never | stats.problems).items():
            yield {"kind": kind.lower(), "reason": reason}, count

    metrics.add(catalogue.OBSERVATIONS, observed)
    metrics.add(catalogue.PROBLEMS, problems)
    metrics.add_number(catalogue.UNDECODABLE, lambda: stats.undecodable)
    metrics.add_number(catalogue.KOPF_RESTARTS, lambda: stats.restarts)
    metrics.add_number(catalogue.RELISTS, lambda: stats.relists)
    metrics.add_number(catalogue.MISSED_DELETIONS, lambda: stats.missed_deletions)
    metrics.add_number(catalogue.DRIFT, lambda: stats.drift)
    metrics.add_number(catalogue.REPAIRS, lambda: stats.repaired)
