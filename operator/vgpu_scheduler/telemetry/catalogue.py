"""Every metric: its name, type, labels and meaning. ``docs/metrics.md`` is rendered from this file.

kube-scheduler's and client-go's names, labels and buckets stand where a metric says the same as theirs, so that their
dashboards work with another ``job``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from vgpu_scheduler.engine import RESOURCES, ClosureCause, QueueEvent, QueueName
from vgpu_scheduler.model import EventReason

__all__ = ["METRICS", "Kind", "Metric"]

_OPEN: Final[tuple[str, ...]] = ()
"""The values of a label that are not a fixed set."""
_FOUND = tuple(
    reason.value
    for reason in (
        EventReason.ALLOCATION_UNREADABLE,
        EventReason.REGISTRATION_UNREADABLE,
        EventReason.DEVICE_REGISTERED_TWICE,
        EventReason.QUOTA_UNREADABLE,
        EventReason.QUOTA_SUSPICIOUS,
        EventReason.NOT_TAKEN_IN,
        EventReason.REJECTED_BY_KUBELET,
        EventReason.REJECTS_PODS,
    )
)
"""What observations may show to be wrong."""
_PLACES = tuple(place.value for place in QueueName if place is not QueueName.TRYING)


class Kind(Enum):
    """The types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is; elsewhere it is only filled.

    Attributes
    ----------
    name, help
        As Prometheus shows them.
    labels
        Its labels with their values; no values where these are not a fixed set.
    of_cluster
        It says something of the cluster, which all replicas know alike: only the leader shows it, so that sums over
        replicas are right.
    buckets
        The upper bounds of a histogram, in ascending order.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_cluster: bool = False
    buckets: tuple[float, ...] = ()


def _doubling(first: float, number: int) -> tuple[float, ...]:
    return tuple(first * 2**n for n in range(number))


def _histogram(name: str, text: str, labels: Mapping[str, tuple[str, ...]], first: float, number: int) -> Metric:
    return Metric(name, Kind.HISTOGRAM, text, labels, buckets=_doubling(first, number))


_RESULTS = {"result": ("scheduled", "unschedulable", "error"), "profile": _OPEN}

ATTEMPTS = Metric(
    "scheduler_schedule_attempts_total",
    Kind.COUNTER,
    "Attempts that have ended: scheduled, unschedulable, or error (an error of the scheduler, or a Binding that "
    "failed). An attempt that was given back before a Binding was sent is not counted.",
    _RESULTS,
)
ATTEMPT_DURATION = _histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of an attempt: the decision where no node was found, else from the decision to the answer to the Binding, "
    "turns at the node included.",
    _RESULTS,
    0.001,
    15,
)
ALGORITHM_DURATION = _histogram("scheduler_scheduling_algorithm_duration_seconds", "Time of a decision.", {}, 0.001, 15)
POD_ATTEMPTS = _histogram("scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", {}, 1.0, 5)
POD_SLI = _histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from a pod's coming to its binding, by the number of its attempts: 1 to 14, or 15+.",
    {"attempts": _OPEN},
    0.01,
    20,
)
PREEMPTION_ATTEMPTS = Metric(
    "scheduler_preemption_attempts_total",
    Kind.COUNTER,
    "Attempts to have pods end for one of higher priority, those included that must not be made yet.",
)
PREEMPTION_VICTIMS = _histogram(
    "scheduler_preemption_victims", "Pods that have to end for one of higher priority.", {}, 1.0, 7
)
PENDING = Metric(
    "scheduler_pending_pods", Kind.GAUGE, "Pods that wait, by where.", {"queue": (*_PLACES, "gated")}, of_cluster=True
)
INCOMING = Metric(
    "scheduler_queue_incoming_pods_total",
    Kind.COUNTER,
    "Pods that came into a part of the queue, and why.",
    {"queue": _PLACES, "event": tuple(event.value for event in QueueEvent)},
    of_cluster=True,
)
UNSCHEDULABLE = Metric(
    "scheduler_unschedulable_pods",
    Kind.GAUGE,
    "Pods that wait after an attempt, under each reason that kept them from nodes: kube-scheduler's plugins, card "
    "reasons (CardInsufficientMemory), causes for which nodes are closed (lock_held), Refused, PodGroup. One pod may "
    "count under several reasons: do not add them up.",
    {"plugin": _OPEN, "profile": _OPEN},
    of_cluster=True,
)
EXTENSION_POINT = _histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Time of an extension point. There is Bind only: the Binding until its outcome is known. Filters and scores are "
    "columns that are kept from decision to decision, so they have no time of their own.",
    {"extension_point": ("Bind",), "status": ("Success", "Error"), "profile": _OPEN},
    0.0001,
    12,
)
CACHE_SIZE = Metric(
    "scheduler_cache_size",
    Kind.GAUGE,
    "Nodes, pods that count on one, and the assumed pods among them.",
    {"type": ("nodes", "pods", "assumed_pods")},
    of_cluster=True,
)
AFTER_FLUSH = Metric(
    "scheduler_pod_scheduled_after_flush_total",
    Kind.COUNTER,
    "Pods that were placed only because 5 minutes had passed: each stands for a change that woke nobody.",
    of_cluster=True,
)
API_REQUESTS = Metric(
    "rest_client_requests_total",
    Kind.COUNTER,
    "Requests to the API server by status code; the code is <error> where no answer came. Watches of kopf are not "
    "counted.",
    {"code": _OPEN, "method": _OPEN, "host": _OPEN},
)

DECISION_DURATION = _histogram(
    "vgpu_scheduler_decision_duration_seconds", "Time of a decision, in buckets from 50 µs.", {}, 0.00005, 14
)
BINDS = Metric(
    "vgpu_scheduler_binds_total",
    Kind.COUNTER,
    "Binds: bound, failed, expired (the pod waited too long at the node), refitted (it got other cards at the last "
    "check), or moved (it went to another node, because nothing moved at its own).",
    {"result": ("bound", "failed", "expired", "refitted", "moved")},
)
BIND_DEPTH = Metric("vgpu_scheduler_bind_queue_depth", Kind.GAUGE, "Pods that wait at nodes to be bound.")
BIND_DEEPEST = Metric("vgpu_scheduler_bind_queue_deepest", Kind.GAUGE, "Pods that wait at one node, at most.")
NODE_LOCKS = Metric(
    "vgpu_scheduler_node_locks_total",
    Kind.COUNTER,
    "Attempts to take a node's lock.",
    {"outcome": ("taken", "refused", "orphan_replaced")},
)
FENCED_PODS = Metric(
    "vgpu_scheduler_fenced_pods_total",
    Kind.COUNTER,
    "Pods that were given a new version, so that no Binding of an earlier leader is carried out.",
)
EVICTIONS = Metric(
    "vgpu_scheduler_evictions_total",
    Kind.COUNTER,
    "Evictions that the API server was asked for, by what it answered.",
    {"answer": ("evicted", "gone", "protected", "several budgets", "denied", "refused", "unknown")},
)
OVERDUE_VICTIMS = Metric(
    "vgpu_scheduler_overdue_victims",
    Kind.GAUGE,
    "Pods that should have ended for one of higher priority, and have not 30 seconds after their grace period.",
    of_cluster=True,
)
LONGEST_PREEMPTION = Metric(
    "vgpu_scheduler_longest_preemption_seconds",
    Kind.GAUGE,
    "Time since room was found for a pod that others have not left yet; of several pods the longest.",
    of_cluster=True,
)
WAITING_GROUPS = Metric(
    "vgpu_scheduler_waiting_pod_groups",
    Kind.GAUGE,
    "Groups of which pods wait, and fewer run than are needed.",
    of_cluster=True,
)
STALE_GROUPS = Metric(
    "vgpu_scheduler_stale_pod_groups",
    Kind.GAUGE,
    "Groups that have run with fewer pods than they need for longer than groups.staleAfter of their policy.",
    of_cluster=True,
)
GROUP_DURATION = _histogram(
    "vgpu_scheduler_pod_group_duration_seconds",
    "Time from the coming of the first pod of a group until as many are bound as are needed; again for one that had "
    "lost pods. A new leader counts from when it began.",
    {},
    0.01,
    20,
)
CLOSED_NODES = Metric(
    "vgpu_scheduler_closed_nodes",
    Kind.GAUGE,
    "Nodes that are closed to some pods.",
    {"cause": tuple(cause.value for cause in ClosureCause)},
    of_cluster=True,
)
REJECTED = Metric(
    "vgpu_scheduler_rejected_by_kubelet_total",
    Kind.COUNTER,
    "Bound pods that their kubelet did not admit, by its reason (OutOfcpu, UnexpectedAdmissionError).",
    {"reason": _OPEN},
    of_cluster=True,
)
UNREADABLE_PODS = Metric(
    "vgpu_scheduler_unreadable_pods",
    Kind.GAUGE,
    "Pods on nodes whose allocation cannot be read: each is charged on every card of its vendor on its node.",
    of_cluster=True,
)
REPORTS_DROPPED = Metric(
    "vgpu_scheduler_reports_dropped_total",
    Kind.COUNTER,
    "Conditions and events that were not written, because too many were waiting.",
)
EVENTS_LIMITED = Metric(
    "vgpu_scheduler_events_limited_total",
    Kind.COUNTER,
    "Events that were not written, because their object had 25 and then more than one in 5 minutes.",
)
OBSERVATIONS = Metric(
    "vgpu_scheduler_observations_total",
    Kind.COUNTER,
    "Objects that were read; what is known in its version is not read again.",
    {"kind": _OPEN},
)
UNDECODABLE = Metric("vgpu_scheduler_undecodable_objects_total", Kind.COUNTER, "Objects that could not be decoded.")
PROBLEMS = Metric(
    "vgpu_scheduler_problems_total",
    Kind.COUNTER,
    "Problems that were found in objects, by the kind of the object and the reason of the event that tells of it.",
    {"kind": _OPEN, "reason": _FOUND},
)
KOPF_RESTARTS = Metric("vgpu_scheduler_kopf_restarts_total", Kind.COUNTER, "Times that kopf was started again.")
RELISTS = Metric("vgpu_scheduler_relists_total", Kind.COUNTER, "Times that a stream had to list again.")
SWEPT = Metric("vgpu_scheduler_swept_objects_total", Kind.COUNTER, "Objects whose deletion a watch missed.")
NODES = Metric("vgpu_scheduler_nodes", Kind.GAUGE, "Known nodes.", of_cluster=True)
DRIFT = Metric(
    "vgpu_scheduler_ledger_drift_nodes",
    Kind.GAUGE,
    "Nodes whose ledger differed from its rebuild at the last sweep and could not be repaired; 0, or a bug.",
)
REPAIRS = Metric(
    "vgpu_scheduler_ledger_repairs_total",
    Kind.COUNTER,
    "Mistakes in the ledger that were found by comparing it with its rebuild, and repaired. Each is an error of this "
    "program, and is logged with its cause.",
)
OVER_CAPACITY = Metric(
    "vgpu_scheduler_over_capacity_nodes",
    Kind.GAUGE,
    "Nodes with a device that is used beyond what it has.",
    of_cluster=True,
)
_MODEL = {"dialect": _OPEN, "model": _OPEN}
_AMOUNT = {"resource": tuple(RESOURCES), "unit": tuple(RESOURCES.values())}
CARDS = Metric(
    "vgpu_scheduler_cards",
    Kind.GAUGE,
    "Cards by model and state.",
    _MODEL | {"state": ("ready", "unhealthy", "cordoned")},
    of_cluster=True,
)
CARDS_CAPACITY = Metric(
    "vgpu_scheduler_cards_capacity", Kind.GAUGE, "What the cards of a model have.", _MODEL | _AMOUNT, of_cluster=True
)
CARDS_ALLOCATABLE = Metric(
    "vgpu_scheduler_cards_allocatable",
    Kind.GAUGE,
    "What those of them have that are in service: neither unhealthy nor cordoned.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
CARDS_ALLOCATED = Metric(
    "vgpu_scheduler_cards_allocated",
    Kind.GAUGE,
    "What is given out of the cards of a model, those that are not in service included.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
CARDS_FREE = Metric(
    "vgpu_scheduler_cards_free",
    Kind.GAUGE,
    "What is left of the cards that are in service.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
NAMESPACE_ALLOCATED = Metric(
    "vgpu_scheduler_namespace_allocated",
    Kind.GAUGE,
    "What the pods of a namespace hold of cards.",
    {"dialect": _OPEN, "namespace": _OPEN} | _AMOUNT,
    of_cluster=True,
)
_METERED = {"namespace": _OPEN, "model": _OPEN}
ALLOCATED_GIBIBYTE_SECONDS = Metric(
    "vgpu_scheduler_allocated_gibibyte_seconds_total",
    Kind.COUNTER,
    "Memory of cards that the pods of a namespace have held while this process led: GiB times seconds.",
    _METERED,
    of_cluster=True,
)
ALLOCATED_CARD_SECONDS = Metric(
    "vgpu_scheduler_allocated_card_seconds_total",
    Kind.COUNTER,
    "Cards that the pods of a namespace have held while this process led: cards times seconds. A pod's share of a card "
    "is the largest of its shares of slots, memory and compute, and those on one card never add up to more than it.",
    _METERED,
    of_cluster=True,
)
WAITING_PODS = Metric(
    "vgpu_scheduler_waiting_pods",
    Kind.GAUGE,
    "Pods that wait in a namespace, until they are bound; those behind scheduling gates do not count.",
    {"namespace": _OPEN},
    of_cluster=True,
)
OLDEST_WAITING = Metric(
    "vgpu_scheduler_oldest_waiting_pod_seconds",
    Kind.GAUGE,
    "How long the pod of a namespace has waited that waits longest, since it came or its gates were opened, as far as "
    "this process has seen it wait.",
    {"namespace": _OPEN},
    of_cluster=True,
)
LEADER = Metric("vgpu_scheduler_leader", Kind.GAUGE, "1 where this process leads, else 0.")
BUILD_INFO = Metric("vgpu_scheduler_build_info", Kind.GAUGE, "1, with the running version.", {"version": _OPEN})
ADMISSION_REVIEWS = Metric(
    "vgpu_scheduler_admission_reviews_total",
    Kind.COUNTER,
    "Pods that the admission webhook was asked about; only where it is on.",
    {"result": ("unchanged", "changed", "denied", "failed")},
)

_QUOTA = {"namespace": _OPEN, "quota_name": _OPEN, "zone": _OPEN}
HISTORY_ROWS = Metric(
    "vgpu_scheduler_history_rows_total",
    Kind.COUNTER,
    "Rows of the log of what happens, where the setting history.directory says where to; those that are dropped came"
    " faster than they could be written, or while no file could be.",
    {"result": ("written", "dropped")},
)
HISTORY_FAILURES = Metric(
    "vgpu_scheduler_history_failures_total",
    Kind.COUNTER,
    "How often a file of the log of what happens could not be written or deleted.",
)
QUOTA_USED = Metric(
    "hami_resource_quota_used", Kind.GAUGE, "What a namespace with a quota holds.", _QUOTA, of_cluster=True
)
QUOTA_LIMIT = Metric("hami_resource_quota_limit", Kind.GAUGE, "What it may hold.", _QUOTA, of_cluster=True)

METRICS: Final = (
    ATTEMPTS,
    ATTEMPT_DURATION,
    ALGORITHM_DURATION,
    POD_ATTEMPTS,
    POD_SLI,
    PREEMPTION_ATTEMPTS,
    PREEMPTION_VICTIMS,
    PENDING,
    INCOMING,
    UNSCHEDULABLE,
    EXTENSION_POINT,
    CACHE_SIZE,
    AFTER_FLUSH,
    API_REQUESTS,
    DECISION_DURATION,
    BINDS,
    BIND_DEPTH,
    BIND_DEEPEST,
    NODE_LOCKS,
    FENCED_PODS,
    EVICTIONS,
    OVERDUE_VICTIMS,
    LONGEST_PREEMPTION,
    WAITING_GROUPS,
    STALE_GROUPS,
    GROUP_DURATION,
    CLOSED_NODES,
    REJECTED,
    UNREADABLE_PODS,
    REPORTS_DROPPED,
    EVENTS_LIMITED,
    OBSERVATIONS,
    UNDECODABLE,
    PROBLEMS,
    KOPF_RESTARTS,
    RELISTS,
    SWEPT,
    NODES,
    DRIFT,
    REPAIRS,
    OVER_CAPACITY,
    CARDS,
    CARDS_CAPACITY,
    CARDS_ALLOCATABLE,
    CARDS_ALLOCATED,
    CARDS_FREE,
    NAMESPACE_ALLOCATED,
    ALLOCATED_GIBIBYTE_SECONDS,
    ALLOCATED_CARD_SECONDS,
    WAITING_PODS,
    OLDEST_WAITING,
    LEADER,
    BUILD_INFO,
    ADMISSION_REVIEWS,
    HISTORY_ROWS,
    HISTORY_FAILURES,
    QUOTA_USED,
    QUOTA_LIMIT,
)
"""All metrics, in the order of the page."""
