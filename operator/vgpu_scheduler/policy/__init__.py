"""Policies: which rules apply to a pod, and which policy each of them comes from."""

from vgpu_scheduler.policy.annotations import OVERRIDES, parse_weights, refused_as_strict
from vgpu_scheduler.policy.catalogue import Catalogue, PolicyKey, key_of, key_title, title
from vgpu_scheduler.policy.defaults import PolicyDefaults
from vgpu_scheduler.policy.evictions import (
    HOUR,
    MOST_EVICTIONS,
    RecordedEviction,
    read_evictions,
    recent_evictions,
    with_eviction,
    without_eviction,
)
from vgpu_scheduler.policy.groups import NO_GROUP_RULES, WhenStale
from vgpu_scheduler.policy.models import (
    CLUSTER_KIND,
    GROUP,
    NAMESPACED_KIND,
    POLICY_KINDS,
    SECTIONS,
    VERSION,
    PolicyConditionType,
    PolicyResource,
    decode_policy,
)
from vgpu_scheduler.policy.not_ready import PolicyNotReady, PolicyNotReadyType
from vgpu_scheduler.policy.preemption import (
    NO_PREEMPTION,
    DisruptionBudgetMode,
    EvictionLimit,
    PreemptionRules,
    VictimScope,
)
from vgpu_scheduler.policy.resolve import Policies, overruled
from vgpu_scheduler.policy.resolved import (
    NO_POD_LIMITS,
    POD,
    SETTINGS,
    EffectivePolicy,
    LimitField,
    PodLimits,
    UpperBound,
    shown_sources,
    shown_titles,
)
from vgpu_scheduler.policy.schema import crds

__all__ = [
    "CLUSTER_KIND",
    "GROUP",
    "HOUR",
    "MOST_EVICTIONS",
    "NAMESPACED_KIND",
    "NO_GROUP_RULES",
    "NO_POD_LIMITS",
    "NO_PREEMPTION",
    "OVERRIDES",
    "POD",
    "POLICY_KINDS",
    "SECTIONS",
    "SETTINGS",
    "VERSION",
    "Catalogue",
    "DisruptionBudgetMode",
    "EffectivePolicy",
    "EvictionLimit",
    "LimitField",
    "PodLimits",
    "Policies",
    "PolicyConditionType",
    "PolicyDefaults",
    "PolicyKey",
    "PolicyNotReady",
    "PolicyNotReadyType",
    "PolicyResource",
    "PreemptionRules",
    "RecordedEviction",
    "UpperBound",
    "VictimScope",
    "WhenStale",
    "crds",
    "decode_policy",
    "key_of",
    "key_title",
    "overruled",
    "parse_weights",
    "read_evictions",
    "recent_evictions",
    "refused_as_strict",
    "shown_sources",
    "shown_titles",
    "title",
    "with_eviction",
    "without_eviction",
]
