"""Kubernetes' own filters and soft scores as functions over the node table.

kube-scheduler calls both plugins: filter plugins, and score plugins. "Predicates" was its older name for filters.
"""

from vgpu_scheduler.predicates.cluster import CLUSTER_PLUGINS, SCORE_PLUGINS
from vgpu_scheduler.predicates.compiled import CompiledPredicates
from vgpu_scheduler.predicates.filters import ClusterFilter, FilterError
from vgpu_scheduler.predicates.reasons import (
    Reason,
    Rejection,
    RejectionCodes,
    unschedulable_message,
    with_preemption,
    without_preemption,
)
from vgpu_scheduler.predicates.refusals import (
    UnsupportedField,
    gated,
    needs_scheduling,
    spec_errors,
    unsupported_fields,
)
from vgpu_scheduler.predicates.scores import PodScore, ScorePlugin, Scores
from vgpu_scheduler.predicates.volumes import volume_plan
from vgpu_scheduler.predicates.volumes.claim_messages import MissingVolumeClaim, is_about_volume_claims

__all__ = [
    "CLUSTER_PLUGINS",
    "SCORE_PLUGINS",
    "ClusterFilter",
    "CompiledPredicates",
    "FilterError",
    "MissingVolumeClaim",
    "PodScore",
    "Reason",
    "Rejection",
    "RejectionCodes",
    "ScorePlugin",
    "Scores",
    "UnsupportedField",
    "gated",
    "is_about_volume_claims",
    "needs_scheduling",
    "spec_errors",
    "unschedulable_message",
    "unsupported_fields",
    "volume_plan",
    "with_preemption",
    "without_preemption",
]
