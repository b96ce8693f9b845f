"""The scheduling engine: the queue, the scheduling algorithm, preemption and pod groups."""

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.card_verdicts import CardVerdict, card_verdicts
from vgpu_scheduler.engine.closures import (
    ClosedByLock,
    ClosedByPod,
    ClosedByUnreadablePod,
    ClosedByUnservedPods,
    ClosureCause,
    NodeClosure,
    StandingClosure,
)
from vgpu_scheduler.engine.device_names import renamed_resources
from vgpu_scheduler.engine.engine import Engine
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.event_notes import counted_at_once, event_note
from vgpu_scheduler.engine.group_attempts import is_about_group
from vgpu_scheduler.engine.group_conditions import GroupCondition
from vgpu_scheduler.engine.group_members import GroupMembers
from vgpu_scheduler.engine.group_progress import GroupProgress, StaleGroup
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.keeping_out import holds_for_others
from vgpu_scheduler.engine.lock_owners import owner_of, review_locks, taker_of
from vgpu_scheduler.engine.locks import FoundLock, LockJudge, LockStatus, TakenLock, find_lock
from vgpu_scheduler.engine.nodes_without_cards import nodes_of_unlisted_dialects, offered_in_vain, offered_without_cards
from vgpu_scheduler.engine.observing import Relist
from vgpu_scheduler.engine.options import SCHEDULER_NAME, EngineOptions
from vgpu_scheduler.engine.policy_limits import (
    LIMITED_SUMS,
    ExceededLimit,
    PodSums,
    breaches,
    check_limits,
    pod_sums,
)
from vgpu_scheduler.engine.policy_report import ConditionReport, PolicyReason, PolicyReport
from vgpu_scheduler.engine.pools import RESOURCES, held_by_namespace, pools
from vgpu_scheduler.engine.preemption import GIVEN_UP_AFTER, OVERDUE_AFTER, Candidates, ends_by_preemption
from vgpu_scheduler.engine.problems import ObservationSignals, Problem
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import QueueEvent, QueueName, Requeue, queue_key
from vgpu_scheduler.engine.quota_reports import QuotaReport, quotas_from_event, used_by
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.engine.topology_sources import TOPOLOGY_FIELD, TopologySources
from vgpu_scheduler.engine.usage_meter import PARTS, UsageMeter, cards_held, part_of_card
from vgpu_scheduler.engine.vendors_on_nodes import vendors_on_node
from vgpu_scheduler.engine.waiting_holds import WaitingHold

__all__ = [
    "GIVEN_UP_AFTER",
    "LIMITED_SUMS",
    "OVERDUE_AFTER",
    "PARTS",
    "RESOURCES",
    "SCHEDULER_NAME",
    "TOPOLOGY_FIELD",
    "Candidates",
    "CardVerdict",
    "ClosedByLock",
    "ClosedByPod",
    "ClosedByUnreadablePod",
    "ClosedByUnservedPods",
    "ClosureCause",
    "ConditionReport",
    "Engine",
    "EngineOptions",
    "EquivalenceClasses",
    "ExceededLimit",
    "FoundLock",
    "GroupCondition",
    "GroupMembers",
    "GroupProgress",
    "GroupStatus",
    "LockJudge",
    "LockStatus",
    "NodeClosure",
    "ObservationSignals",
    "PodSums",
    "PolicyReason",
    "PolicyReport",
    "Problem",
    "QueueEvent",
    "QueueName",
    "QuotaLimits",
    "QuotaReport",
    "Relist",
    "Requeue",
    "SchedulingAlgorithm",
    "SchedulingQueue",
    "StaleGroup",
    "StandingClosure",
    "TakenLock",
    "TopologySources",
    "UsageMeter",
    "WaitingHold",
    "breaches",
    "card_verdicts",
    "cards_held",
    "check_limits",
    "counted_at_once",
    "ends_by_preemption",
    "event_note",
    "find_lock",
    "held_by_namespace",
    "holds_for_others",
    "is_about_group",
    "nodes_of_unlisted_dialects",
    "offered_in_vain",
    "offered_without_cards",
    "owner_of",
    "part_of_card",
    "pod_sums",
    "pools",
    "queue_key",
    "quotas_from_event",
    "renamed_resources",
    "review_locks",
    "taker_of",
    "used_by",
    "vendors_on_node",
]
