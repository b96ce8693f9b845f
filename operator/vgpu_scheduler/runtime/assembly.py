"""From settings to values, and from rooms to metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vgpu_scheduler import __version__
from vgpu_scheduler.admission import AdmissionRules
from vgpu_scheduler.apiclient import ApiClient, Credentials
from vgpu_scheduler.binding import Binder, Reporter
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import HAMI_ZONE, hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import parse_binpack_arguments, volcano_dialect
from vgpu_scheduler.engine import Engine, Place
from vgpu_scheduler.intake import AdmissionEndpoint, AdmissionServer, Observer
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.runtime.device_config import device_config
from vgpu_scheduler.runtime.elector import Elector
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry import Metrics

_LABELS_SINCE = (1, 35)
"""Kubernetes merges the labels of a Binding since this version."""
_GENERATIONS_SINCE = (1, 34)
"""Kubernetes keeps the ``observedGeneration`` of a pod's conditions since this version (1.33 drops it)."""


def make_dialects(settings: Settings) -> list[Dialect]:
    """Return the dialects that are listed, with the configured names.

    Raises
    ------
    SettingsError
        If the device configuration cannot be read; the message names the file and the field.
    """
    makers: Mapping[str, Callable[[], Dialect]] = {
        "hami": lambda: hami_dialect(device_config(settings)),
        "volcano": volcano_dialect,
        "koordinator": koordinator_dialect,
    }
    return [makers[name]() for name in settings.dialects]


def policy_defaults(settings: Settings) -> PolicyDefaults:
    """Return what holds where no policy and no annotation says anything."""
    return PolicyDefaults(
        settings.node_policy,
        settings.device_policy,
        settings.order,
        settings.strict_annotations,
        settings.managed,
        parse_binpack_arguments,
    )


@dataclass(frozen=True, slots=True)
class Connection:
    """The API server that a replica works with.

    Attributes
    ----------
    identity
        Of this process; fresh at each start, so that a restart does not take itself for its predecessor.
    version
        Major and minor version whose features the API server has.
    """

    api: ApiClient
    identity: str
    version: tuple[int, int]

    @property
    def label_first(self) -> bool:
        """Whether labels go before a Binding, in a write of their own: the API server ignores those on it."""
        return self.version < _LABELS_SINCE

    @property
    def observes_generation(self) -> bool:
        """Whether conditions of pods have an ``observedGeneration``."""
        return self.version >= _GENERATIONS_SINCE


def admission_server(
    settings: Settings,
    credentials: Credentials,
    engine: Engine,
    metrics: Metrics,
    after_spawn: Callable[[], None],
    restarted: Callable[[], None],
) -> AdmissionServer | None:
    """Return what serves the admission webhook, with its metric; None where it is off."""
    chosen = settings.admission
    if not chosen.enabled:
        return None
    assert chosen.cert_file is not None
    assert chosen.key_file is not None
    server = AdmissionServer(
        credentials,
        AdmissionEndpoint(chosen.port, chosen.cert_file, chosen.key_file, chosen.ca_file, chosen.reload_interval),
        AdmissionRules(
            engine.dialects,
            settings.scheduler_names,
            chosen.overwrite_default_scheduler,
            engine.policies.claim_terms,
        ),
        lambda namespace, claims: engine.quotas.refuses(namespace, claims, engine.state),
        after_spawn=after_spawn,
        restarted=restarted,
    )
    metrics.add(
        "vgpu_scheduler_admission_reviews_total",
        "Pods that the admission webhook was asked about, by result.",
        lambda: [({"result": result}, float(count)) for result, count in server.stats.results.items()],
    )
    return server


def add_metrics(
    metrics: Metrics, engine: Engine, binder: Binder, reporter: Reporter, observer: Observer, elector: Elector
) -> None:
    """Make what the rooms count visible."""

    def pending() -> Iterator[tuple[dict[str, str], float]]:
        for place, count in engine.queue.counts().items():
            if place is not Place.TRYING:
                yield {"queue": place.value}, count
        yield {"queue": "gated"}, engine.gated

    def binds() -> Iterator[tuple[dict[str, str], float]]:
        yield {"result": "bound"}, binder.stats.bound
        yield {"result": "failed"}, binder.stats.failed
        yield {"result": "expired"}, binder.stats.expired
        yield {"result": "refitted"}, binder.stats.refitted

    def locks() -> Iterator[tuple[dict[str, str], float]]:
        yield {"outcome": "taken"}, binder.locker.stats.taken
        yield {"outcome": "refused"}, binder.locker.stats.refused
        yield {"outcome": "orphan_replaced"}, binder.locker.stats.orphans

    def observed() -> Iterator[tuple[dict[str, str], float]]:
        for kind in engine.kinds:
            yield {"kind": kind.lower()}, observer.stats.observed[kind]

    def quotas(*, limits: bool) -> Iterator[tuple[dict[str, str], float]]:
        for report in engine.quotas.report(engine.state):
            labels = {"namespace": report.namespace, "quota_name": report.resource, **HAMI_ZONE}
            yield labels, report.limit if limits else report.used

    metrics.add("scheduler_pending_pods", "Pods that wait to be scheduled, by place.", pending)
    metrics.add("vgpu_scheduler_binds_total", "Binds by result.", binds)
    metrics.add("vgpu_scheduler_node_locks_total", "Node locks by outcome.", locks)
    metrics.add(
        "vgpu_scheduler_closed_nodes",
        "Nodes whose device plugins serve no further pod, by cause.",
        lambda: [({"cause": cause.value}, count) for cause, count in engine.closed_nodes.counts().items()],
    )
    metrics.add(
        "vgpu_scheduler_rejected_by_kubelet_total",
        "Bound pods that their kubelet did not admit, by its reason.",
        lambda: [({"reason": reason}, count) for reason, count in engine.closed_nodes.rejected.counts.items()],
    )
    metrics.add("vgpu_scheduler_observations_total", "Objects observed.", observed)
    # HAMi's names. Its label with the limit on what is used is left out: each change of a limit makes a new series.
    metrics.add("hami_resource_quota_used", "What a namespace with a quota holds.", lambda: quotas(limits=False))
    metrics.add("hami_resource_quota_limit", "What a namespace may hold.", lambda: quotas(limits=True))
    number = metrics.add_number
    number(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods that were placed only because time had passed: each stands for a change that woke nobody.",
        lambda: engine.queue.placed_after_flush,
    )
    number("vgpu_scheduler_bind_queue_depth", "Pods that wait at nodes.", lambda: binder.depth)
    number("vgpu_scheduler_bind_queue_deepest", "Pods that wait at one node, at most.", lambda: binder.deepest)
    number(
        "vgpu_scheduler_undecodable_objects_total",
        "Objects that could not be read.",
        lambda: observer.stats.undecodable,
    )
    number("vgpu_scheduler_problems_total", "Annotations that could not be read.", lambda: observer.stats.problems)
    number("vgpu_scheduler_watch_restarts_total", "Times that kopf was started again.", lambda: observer.stats.restarts)
    number("vgpu_scheduler_relists_total", "Times that a stream had to list again.", lambda: observer.stats.relists)
    number("vgpu_scheduler_swept_objects_total", "Objects whose deletion was missed.", lambda: observer.stats.swept)
    number("vgpu_scheduler_reports_dropped_total", "Conditions and events not written.", lambda: reporter.dropped)
    number(
        "vgpu_scheduler_events_limited_total",
        "Events not written because there were too many about their object.",
        lambda: reporter.limited,
    )
    number("vgpu_scheduler_leader", "Whether this process leads.", lambda: float(elector.leading))
    number("vgpu_scheduler_nodes", "Known nodes.", lambda: len(engine.state.nodes))
    number(
        "vgpu_scheduler_ledger_drift_nodes",
        "Nodes whose ledger differs from its rebuild.",
        lambda: observer.stats.drift,
    )
    number(
        "vgpu_scheduler_over_capacity_nodes",
        "Nodes with a device used beyond what it has.",
        lambda: len(engine.state.over_capacity()),
    )
    metrics.add("vgpu_scheduler_build_info", "The running version.", lambda: [({"version": __version__}, 1.0)])
