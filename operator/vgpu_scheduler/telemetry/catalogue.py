"""Every metric: its name, type, labels and meaning. ``docs/metrics.md`` is rendered from this file.

A metric that means the same as one of kube-scheduler's or client-go's has its name, labels and buckets, so that their
dashboards work with another ``job``.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.engine import RESOURCES, ClosureCause, QueueEvent, QueueName
from vgpu_scheduler.model import EventReason
from vgpu_scheduler.telemetry.metric import counter, gauge, histogram

_OPEN: Final[tuple[str, ...]] = ()
"""The values of a label whose values are not a fixed set."""
PROBLEMS_OF_KINDS: Final = (
    ("Pod", EventReason.ALLOCATION_UNREADABLE),
    ("Node", EventReason.REGISTRATION_UNREADABLE),
    ("Node", EventReason.DEVICE_REGISTERED_TWICE),
    ("ResourceQuota", EventReason.QUOTA_UNREADABLE),
    ("ResourceQuota", EventReason.QUOTA_SUSPICIOUS),
    ("Pod", EventReason.REJECTED_BY_KUBELET),
    ("Node", EventReason.REJECTS_PODS),
)
"""The kinds of observed objects with the reasons of problems that are found in them."""
PROBLEM_OF_ALL_KINDS: Final = EventReason.NOT_TAKEN_IN
_FOUND = tuple(reason.value for reason in (*(reason for _, reason in PROBLEMS_OF_KINDS), PROBLEM_OF_ALL_KINDS))
_PLACES = tuple(place.value for place in QueueName if place is not QueueName.IN_FLIGHT)
_RESULTS = {"result": ("scheduled", "unschedulable", "error"), "profile": _OPEN}

ATTEMPTS = counter(
    "scheduler_schedule_attempts_total",
    "Attempts that have ended: scheduled, unschedulable, or error (an error of the scheduler, or a Binding that "
    "failed). An attempt that was cancelled before a Binding was sent is not counted.",
    _RESULTS,
)
ATTEMPT_DURATION = histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of an attempt: the decision alone if no node was found, else from the decision to the answer to the Binding, "
    "including waiting at the node.",
    _RESULTS,
    0.001,
    15,
)
ALGORITHM_DURATION = histogram("scheduler_scheduling_algorithm_duration_seconds", "Time of a decision.", {}, 0.001, 15)
POD_ATTEMPTS = histogram("scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", {}, 1.0, 5)
POD_SLI = histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from a pod's arrival to its binding, by the number of its attempts: 1 to 14, or 15+.",
    {"attempts": _OPEN},
    0.01,
    20,
)
PREEMPTION_ATTEMPTS = counter(
    "scheduler_preemption_attempts_total",
    "Attempts to evict pods for one of higher priority, including attempts that are not allowed yet.",
)
PREEMPTION_VICTIMS = histogram("scheduler_preemption_victims", "Victims of a preemption.", {}, 1.0, 7)
PENDING = gauge(
    "scheduler_pending_pods",
    "Pending pods by queue.",
    {"queue": (*_PLACES, "gated")},
    of_cluster=True,
)
INCOMING = counter(
    "scheduler_queue_incoming_pods_total",
    "Pods added to a queue, by the event that caused it.",
    {"queue": _PLACES, "event": tuple(event.value for event in QueueEvent)},
    of_cluster=True,
)
UNSCHEDULABLE = gauge(
    "scheduler_unschedulable_pods",
    "Pods that wait after an attempt, by the reasons why nodes did not fit: kube-scheduler's plugins, card reasons "
    "(CardInsufficientMemory), causes of closed nodes (lock_held), Refused, PodGroup. One pod may count under several "
    "reasons: do not add them up.",
    {"plugin": _OPEN, "profile": _OPEN},
    of_cluster=True,
)
EXTENSION_POINT = histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Time of an extension point. There is only Bind: the Binding until its outcome is known. Filters and scores are "
    "cached from decision to decision, so they have no time of their own.",
    {"extension_point": ("Bind",), "status": ("Success", "Error"), "profile": _OPEN},
    0.0001,
    12,
)
CACHE_SIZE = gauge(
    "scheduler_cache_size",
    "Nodes, pods charged on a node, and the assumed pods among them.",
    {"type": ("nodes", "pods", "assumed_pods")},
    of_cluster=True,
)
AFTER_FLUSH = counter(
    "scheduler_pod_scheduled_after_flush_total",
    "Pods that were placed only by the retry after 5 minutes: each means that a change did not requeue the pod.",
    of_cluster=True,
)
API_REQUESTS = counter(
    "rest_client_requests_total",
    "Requests to the API server by status code; the code is <error> if no answer came. Watches of kopf are not "
    "counted.",
    {"code": _OPEN, "method": _OPEN, "host": _OPEN},
)

DECISION_DURATION = histogram(
    "vgpu_scheduler_decision_duration_seconds", "Time of a decision, in buckets from 50 µs.", {}, 0.00005, 14
)
BINDS = counter(
    "vgpu_scheduler_binds_total",
    "Binds: bound, failed, expired (the pod waited too long at the node), refitted (it got other cards at the last "
    "check), or moved (it went to another node, because its own node made no progress).",
    {"result": ("bound", "failed", "expired", "refitted", "moved")},
)
BIND_DEPTH = gauge("vgpu_scheduler_bind_queue_depth", "Pods that wait at nodes to be bound.")
BIND_DEEPEST = gauge("vgpu_scheduler_bind_queue_deepest", "Largest number of pods that wait at one node to be bound.")
NODE_LOCKS = counter(
    "vgpu_scheduler_node_locks_total",
    "Attempts to take a node's lock.",
    {"outcome": ("taken", "refused", "orphan_replaced")},
)
FENCED_PODS = counter(
    "vgpu_scheduler_fenced_pods_total",
    "Pods that were given a new version, so that no Binding of an earlier leader is carried out.",
)
EVICTIONS = counter(
    "vgpu_scheduler_evictions_total",
    "Evictions requested from the API server, by its answer.",
    {"answer": ("evicted", "gone", "protected", "several_budgets", "denied", "refused", "unknown")},
)
OVERDUE_VICTIMS = gauge(
    "vgpu_scheduler_overdue_victims",
    "Victims of preemption that have not ended 30 seconds after their grace period.",
    of_cluster=True,
)
LONGEST_PREEMPTION = gauge(
    "vgpu_scheduler_longest_preemption_seconds",
    "Longest time since room was found for a pod whose victims have not left yet.",
    of_cluster=True,
)
WAITING_GROUPS = gauge(
    "vgpu_scheduler_waiting_pod_groups",
    "Groups with waiting pods and fewer running pods than they need.",
    of_cluster=True,
)
STALE_GROUPS = gauge(
    "vgpu_scheduler_stale_pod_groups",
    "Groups that have run with fewer pods than they need for longer than groups.staleAfter of their policy.",
    of_cluster=True,
)
GROUP_DURATION = histogram(
    "vgpu_scheduler_pod_group_duration_seconds",
    "Time from the arrival of a group's first pod until as many pods are bound as the group needs; again for a group "
    "that had lost pods. A new leader counts from its own start.",
    {},
    0.01,
    20,
)
CLOSED_NODES = gauge(
    "vgpu_scheduler_closed_nodes",
    "Nodes that are closed to some pods.",
    {"cause": tuple(cause.value for cause in ClosureCause)},
    of_cluster=True,
)
REJECTED = counter(
    "vgpu_scheduler_rejected_by_kubelet_total",
    "Bound pods that their kubelet did not admit, by its reason (OutOfcpu, UnexpectedAdmissionError).",
    {"reason": _OPEN},
    of_cluster=True,
)
UNREADABLE_PODS = gauge(
    "vgpu_scheduler_unreadable_pods",
    "Pods on nodes with an unreadable allocation: each is charged on every card of its vendor on its node.",
    of_cluster=True,
)
REPORTS_DROPPED = counter(
    "vgpu_scheduler_reports_dropped_total",
    "Conditions and events that were dropped, because too many were waiting to be written.",
)
EVENTS_LIMITED = counter(
    "vgpu_scheduler_events_limited_total",
    "Events that were not written, because their object had 25 events, and then more than one in 5 minutes.",
)
OBSERVATIONS = counter(
    "vgpu_scheduler_observations_total",
    "Objects that were read; an object whose version is known is not read again.",
    {"kind": _OPEN},
)
UNDECODABLE = counter("vgpu_scheduler_undecodable_objects_total", "Objects that could not be decoded.")
PROBLEMS = counter(
    "vgpu_scheduler_problems_total",
    "Problems found in objects, by the kind of the object and the reason of the event that reports the problem.",
    {"kind": _OPEN, "reason": _FOUND},
)
KOPF_RESTARTS = counter("vgpu_scheduler_kopf_restarts_total", "Restarts of kopf.")
RELISTS = counter("vgpu_scheduler_relists_total", "Relists by watch streams.")
UNLISTED_KINDS = gauge(
    "vgpu_scheduler_unlisted_kinds",
    "1 for each kind of objects that could not be listed last time, by the status code of the answer; the code is "
    "<error> if no answer came.",
    {"kind": _OPEN, "code": _OPEN},
)
MISSED_DELETIONS = counter("vgpu_scheduler_swept_objects_total", "Objects whose deletion a watch missed.")
NODES = gauge("vgpu_scheduler_nodes", "Known nodes.", of_cluster=True)
DRIFT = gauge(
    "vgpu_scheduler_ledger_drift_nodes",
    "Nodes whose ledger differed from its rebuild at the last relist and could not be repaired; a value above 0 is a "
    "bug.",
)
REPAIRS = counter(
    "vgpu_scheduler_ledger_repairs_total",
    "Errors in the ledger that a comparison with its rebuild found and repaired. Each is a bug in this program, and is "
    "logged with its cause.",
)
OVER_CAPACITY = gauge(
    "vgpu_scheduler_over_capacity_nodes",
    "Nodes with a device that is used beyond its capacity.",
    of_cluster=True,
)
_MODEL = {"dialect": _OPEN, "model": _OPEN}
_AMOUNT = {"resource": tuple(RESOURCES), "unit": tuple(RESOURCES.values())}
CARDS = gauge(
    "vgpu_scheduler_cards",
    "Cards by model and state.",
    _MODEL | {"state": ("ready", "unhealthy", "cordoned")},
    of_cluster=True,
)
CARDS_CAPACITY = gauge(
    "vgpu_scheduler_cards_capacity",
    "Capacity of the cards of a model.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
CARDS_ALLOCATABLE = gauge(
    "vgpu_scheduler_cards_allocatable",
    "Capacity of the cards of a model that are in service: neither unhealthy nor cordoned.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
CARDS_ALLOCATED = gauge(
    "vgpu_scheduler_cards_allocated",
    "Allocated amount of the cards of a model, including cards that are not in service.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
CARDS_FREE = gauge(
    "vgpu_scheduler_cards_free",
    "Free amount of the cards of a model that are in service.",
    _MODEL | _AMOUNT,
    of_cluster=True,
)
NAMESPACE_ALLOCATED = gauge(
    "vgpu_scheduler_namespace_allocated",
    "Amount of cards that the pods of a namespace hold.",
    {"dialect": _OPEN, "namespace": _OPEN} | _AMOUNT,
    of_cluster=True,
)
_METERED = {"namespace": _OPEN, "model": _OPEN}
ALLOCATED_GIBIBYTE_SECONDS = counter(
    "vgpu_scheduler_allocated_gibibyte_seconds_total",
    "Memory of cards that the pods of a namespace have held while this process led: GiB times seconds.",
    _METERED,
    of_cluster=True,
)
ALLOCATED_CARD_SECONDS = counter(
    "vgpu_scheduler_allocated_card_seconds_total",
    "Cards that the pods of a namespace have held while this process led: cards times seconds. A pod's share of a card "
    "is the largest of its shares of slots, memory and compute; the shares on one card never exceed that card.",
    _METERED,
    of_cluster=True,
)
WAITING_PODS = gauge(
    "vgpu_scheduler_waiting_pods",
    "Pods of a namespace that wait to be bound, without pods behind scheduling gates.",
    {"namespace": _OPEN},
    of_cluster=True,
)
OLDEST_WAITING = gauge(
    "vgpu_scheduler_oldest_waiting_pod_seconds",
    "Waiting time of the pod of a namespace that waits longest, since its arrival or the removal of its scheduling "
    "gates, as far as this process has seen it wait.",
    {"namespace": _OPEN},
    of_cluster=True,
)
LEADER = gauge("vgpu_scheduler_leader", "1 if this process leads, else 0.")
BUILD_INFO = gauge("vgpu_scheduler_build_info", "1, labelled with the running version.", {"version": _OPEN})
ADMISSION_REVIEWS = counter(
    "vgpu_scheduler_admission_reviews_total",
    "Pods reviewed by the admission webhook; only if the webhook is enabled.",
    {"result": ("unchanged", "changed", "denied", "failed")},
)

_QUOTA = {"namespace": _OPEN, "quota_name": _OPEN, "zone": _OPEN}
HISTORY_ROWS = counter(
    "vgpu_scheduler_history_rows_total",
    "Rows of the history log, if the setting history.directory is set; dropped rows arrived faster than "
    "they could be written, or while no file could be written.",
    {"result": ("written", "dropped")},
)
HISTORY_FAILURES = counter(
    "vgpu_scheduler_history_failures_total",
    "Failures to write or delete a file of the history log.",
)
QUOTA_USED = gauge("hami_resource_quota_used", "Amount that a namespace with a quota holds.", _QUOTA, of_cluster=True)
QUOTA_LIMIT = gauge("hami_resource_quota_limit", "Amount that the namespace may hold.", _QUOTA, of_cluster=True)

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
    UNLISTED_KINDS,
    MISSED_DELETIONS,
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
"""All metrics, in the order of ``docs/metrics.md``."""
