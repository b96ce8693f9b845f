"""From rooms to metrics: what they count becomes visible. ``docs/metrics.md`` says what each is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from vgpu_scheduler import __version__
from vgpu_scheduler.binding import Answer, Binder, BinderHooks, Reporter, Step
from vgpu_scheduler.dialects.hami import HAMI_ZONE
from vgpu_scheduler.engine import Engine, Place
from vgpu_scheduler.intake import Observer
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.elector import Elector
from vgpu_scheduler.state import Phase
from vgpu_scheduler.telemetry import Attempts, Metrics

_Values = Iterator[tuple[dict[str, str], float]]


def binder_hooks(attempts: Attempts, on_step: Callable[[Step, Pod], Awaitable[None]] | None) -> BinderHooks:
    """Return who is told of binds: the metrics, and the tests that crash at a step."""

    def attempted(pod: Pod, answer: Answer, seconds: float) -> None:
        attempts.attempted("scheduled" if answer is Answer.BOUND else "error", pod.scheduler_name, seconds)

    def answered(pod: Pod, answer: Answer, seconds: float) -> None:
        attempts.answered("Success" if answer is Answer.BOUND else "Error", pod.scheduler_name, seconds)

    return BinderHooks(
        on_bound=lambda _, tries, seconds: attempts.scheduled(tries, seconds),
        on_attempt=attempted,
        on_answer=answered,
        **({"on_step": on_step} if on_step else {}),
    )


def add_metrics(
    metrics: Metrics, engine: Engine, binder: Binder, reporter: Reporter, observer: Observer, elector: Elector
) -> None:
    """Make what the rooms count visible; what they know of the cluster only while this process leads."""
    metrics.leads = lambda: elector.leading
    _add_queue(metrics, engine)
    _add_knowledge(metrics, engine)
    _add_binding(metrics, binder, reporter)
    _add_intake(metrics, engine, observer)
    metrics.add_number("vgpu_scheduler_leader", "Whether this process leads.", lambda: float(elector.leading))
    metrics.add("vgpu_scheduler_build_info", "The running version.", lambda: [({"version": __version__}, 1.0)])


def _add_queue(metrics: Metrics, engine: Engine) -> None:
    queue, add = engine.queue, partial(metrics.add, of_cluster=True)

    def pending() -> _Values:
        for place, count in queue.counts().items():
            if place is not Place.TRYING:
                yield {"queue": place.value}, count
        yield {"queue": "gated"}, engine.gated

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

    add("scheduler_pending_pods", "Pods that wait to be scheduled, by place.", pending)
    add("scheduler_queue_incoming_pods_total", "Pods that came into a place of the queue.", incoming)
    add("scheduler_unschedulable_pods", "Pods that wait, by each plugin that rejected them.", rejected)
    metrics.add_number(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods that were placed only because time had passed: each stands for a change that woke nobody.",
        lambda: queue.placed_after_flush,
        of_cluster=True,
    )


def _add_knowledge(metrics: Metrics, engine: Engine) -> None:
    def known() -> _Values:
        phases = Counter(held.phase for held in engine.state.reservations())
        yield {"type": "nodes"}, len(engine.state.nodes)
        yield {"type": "pods"}, phases.total()
        yield {"type": "assumed_pods"}, phases[Phase.ASSUMED]

    def quotas(*, limits: bool) -> _Values:
        for report in engine.quotas.report(engine.state):
            labels = {"namespace": report.namespace, "quota_name": report.resource, **HAMI_ZONE}
            yield labels, report.limit if limits else report.used

    closed = engine.closed_nodes
    add, add_number = partial(metrics.add, of_cluster=True), partial(metrics.add_number, of_cluster=True)
    add("scheduler_cache_size", "Nodes, and pods that count on one, assumed ones among them.", known)
    add(
        "vgpu_scheduler_closed_nodes",
        "Nodes that are closed to some pods, by cause.",
        lambda: [({"cause": cause.value}, count) for cause, count in closed.counts().items()],
    )
    add(
        "vgpu_scheduler_rejected_by_kubelet_total",
        "Bound pods that their kubelet did not admit, by its reason.",
        lambda: [({"reason": reason}, count) for reason, count in closed.rejected.counts.items()],
    )
    # HAMi's names. Its label with the limit on what is used is left out: each change of a limit makes a new series.
    add("hami_resource_quota_used", "What a namespace with a quota holds.", lambda: quotas(limits=False))
    add("hami_resource_quota_limit", "What a namespace may hold.", lambda: quotas(limits=True))
    add_number("vgpu_scheduler_nodes", "Known nodes.", lambda: len(engine.state.nodes))
    add_number(
        "vgpu_scheduler_over_capacity_nodes",
        "Nodes with a device used beyond what it has.",
        lambda: len(engine.state.over_capacity()),
    )


def _add_binding(metrics: Metrics, binder: Binder, reporter: Reporter) -> None:
    def binds() -> _Values:
        yield {"result": "bound"}, binder.stats.bound
        yield {"result": "failed"}, binder.stats.failed
        yield {"result": "expired"}, binder.stats.expired
        yield {"result": "refitted"}, binder.stats.refitted

    def locks() -> _Values:
        yield {"outcome": "taken"}, binder.locker.stats.taken
        yield {"outcome": "refused"}, binder.locker.stats.refused
        yield {"outcome": "orphan_replaced"}, binder.locker.stats.orphans

    metrics.add("vgpu_scheduler_binds_total", "Binds by result.", binds)
    metrics.add("vgpu_scheduler_node_locks_total", "Node locks by outcome.", locks)
    number = metrics.add_number
    number(
        "vgpu_scheduler_held_off_pods_total",
        "Pods that were given a new version, so that no Binding of an earlier leader is carried out.",
        lambda: binder.locker.held_off,
    )
    number("vgpu_scheduler_bind_queue_depth", "Pods that wait at nodes.", lambda: binder.depth)
    number("vgpu_scheduler_bind_queue_deepest", "Pods that wait at one node, at most.", lambda: binder.deepest)
    number("vgpu_scheduler_reports_dropped_total", "Conditions and events not written.", lambda: reporter.dropped)
    number(
        "vgpu_scheduler_events_limited_total",
        "Events not written because there were too many about their object.",
        lambda: reporter.limited,
    )


def _add_intake(metrics: Metrics, engine: Engine, observer: Observer) -> None:
    stats = observer.stats

    def observed() -> _Values:
        for kind in engine.kinds:
            yield {"kind": kind.lower()}, stats.observed[kind]

    metrics.add("vgpu_scheduler_observations_total", "Objects observed.", observed)
    number = metrics.add_number
    number("vgpu_scheduler_undecodable_objects_total", "Objects that could not be read.", lambda: stats.undecodable)
    number("vgpu_scheduler_problems_total", "Annotations that could not be read.", lambda: stats.problems)
    number("vgpu_scheduler_watch_restarts_total", "Times that kopf was started again.", lambda: stats.restarts)
    number("vgpu_scheduler_relists_total", "Times that a stream had to list again.", lambda: stats.relists)
    number("vgpu_scheduler_swept_objects_total", "Objects whose deletion was missed.", lambda: stats.swept)
    number("vgpu_scheduler_ledger_drift_nodes", "Nodes whose ledger differs from its rebuild.", lambda: stats.drift)
    number("vgpu_scheduler_ledger_repairs_total", "Mistakes in the ledger that were repaired.", lambda: stats.repaired)
