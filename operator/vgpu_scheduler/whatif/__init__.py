"""What-if questions to the engine: simulations, explanations and tests of policies.

Each subpackage needs only those above it:

- ``objects``: Kubernetes objects as written in files
- ``workloads``: the pods that controllers create for workloads
- ``world``: a cluster in memory, which is loaded, changed, simulated and counted
- ``traces``: replays of clusters and pods from traces
- ``reasons``: causes that keep a pod from nodes and cards
- ``moves``: moves of pods that make room for others
- ``advice``: remedies for a waiting pod, one module per kind of change
- ``tenant_advice``: remedies derived from a pod's condition, for readers who may not see nodes
- ``explanation``: why a pod waits, or is where it is
- ``policy_checks``: unit tests of policies, and policy fields that match nothing
"""

from vgpu_scheduler.whatif.advice.remedies import remedies
from vgpu_scheduler.whatif.advice.remedy import Remedy, RemedyType
from vgpu_scheduler.whatif.explanation.cards import held_cards
from vgpu_scheduler.whatif.explanation.explanation import Explanation, explain_bound, explain_pod
from vgpu_scheduler.whatif.explanation.preempting import PreemptionOutlook, take_up_preemptions
from vgpu_scheduler.whatif.moves.defrag import Plan, defrag
from vgpu_scheduler.whatif.moves.making_room import MOST_MOVES, EvictionStep, RoomPlan, StepType, make_room
from vgpu_scheduler.whatif.objects.admission import admission_errors, missing_class
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.objects.fields import unknown_fields
from vgpu_scheduler.whatif.objects.objects import FileObject, InvalidObjectsError, flatten, namespace_of
from vgpu_scheduler.whatif.objects.read_times import KNOWN_FROM, kinds_read, newest_time, pods_since, read_at, when_read
from vgpu_scheduler.whatif.policy_checks.cases import (
    Case,
    CaseError,
    CaseResult,
    check_case,
    place,
    read_cases,
    world_of,
)
from vgpu_scheduler.whatif.policy_checks.reach import fields_matching_nothing, matches_nothing
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.reasons.volume_causes import awaited_volumes
from vgpu_scheduler.whatif.tenant_advice.remedies import ConditionRemedies, remedies_from_condition
from vgpu_scheduler.whatif.tenant_advice.tenant import (
    as_meant,
    counted_for_quotas,
    known_problems,
    left_to_cards,
    quotas_in_the_way,
    quotas_of,
)
from vgpu_scheduler.whatif.tenant_advice.tenant_policies import policy_remedies
from vgpu_scheduler.whatif.workloads import (
    WORKLOADS,
    PodSet,
    WorkloadPods,
    claims_of,
    is_workload,
    made_by,
    pods_of,
    with_job_sets,
)
from vgpu_scheduler.whatif.world.capacity import MOST_COPIES, Capacity, capacity_of, place_copies
from vgpu_scheduler.whatif.world.changes import ChangeResult, apply_change
from vgpu_scheduler.whatif.world.nodes import copy_of, listed_cards
from vgpu_scheduler.whatif.world.options import make_dialect
from vgpu_scheduler.whatif.world.simulation import PodResult, ask, simulate, with_preempted
from vgpu_scheduler.whatif.world.tables import aligned, explain, number
from vgpu_scheduler.whatif.world.usage_hours import HeldHours, hours_of_running_pods, summed_by_namespace
from vgpu_scheduler.whatif.world.victims import nameless, victim_row
from vgpu_scheduler.whatif.world.waiting_room import KeptRoom, keep_waiting_room
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "KNOWN_FROM",
    "MOST_COPIES",
    "MOST_MOVES",
    "WORKLOADS",
    "Capacity",
    "Case",
    "CaseError",
    "CaseResult",
    "ChangeResult",
    "ConditionRemedies",
    "EvictionStep",
    "Explanation",
    "FileObject",
    "HeldHours",
    "InvalidObjectsError",
    "KeptRoom",
    "NamespaceObjects",
    "Plan",
    "PodResult",
    "PodSet",
    "PreemptionOutlook",
    "Remedy",
    "RemedyType",
    "RoomPlan",
    "StepType",
    "WorkloadPods",
    "World",
    "admission_errors",
    "aligned",
    "apply_change",
    "as_meant",
    "ask",
    "awaited_volumes",
    "capacity_of",
    "card_name",
    "check_case",
    "claims_of",
    "copy_of",
    "counted_for_quotas",
    "defrag",
    "explain",
    "explain_bound",
    "explain_pod",
    "fields_matching_nothing",
    "flatten",
    "held_cards",
    "hours_of_running_pods",
    "is_workload",
    "keep_waiting_room",
    "kinds_read",
    "known_problems",
    "left_to_cards",
    "listed_cards",
    "made_by",
    "make_dialect",
    "make_room",
    "matches_nothing",
    "missing_class",
    "nameless",
    "namespace_of",
    "newest_time",
    "number",
    "place",
    "place_copies",
    "pods_of",
    "pods_since",
    "policy_remedies",
    "quotas_in_the_way",
    "quotas_of",
    "read_at",
    "read_cases",
    "remedies",
    "remedies_from_condition",
    "simulate",
    "summed_by_namespace",
    "take_up_preemptions",
    "unknown_fields",
    "victim_row",
    "when_read",
    "with_job_sets",
    "with_preempted",
    "world_of",
]
