"""Policies: what is in force for a pod, and where each part of it came from."""

from vgpu_scheduler.policy.annotations import OVERRIDES, PolicyError, parse_weights
from vgpu_scheduler.policy.catalogue import Catalogue, PolicyKey, key_of, title
from vgpu_scheduler.policy.models import (
    CLUSTER_KIND,
    GROUP,
    NAMESPACED_KIND,
    PLURALS,
    VERSION,
    PolicyResource,
    decode_policy,
)
from vgpu_scheduler.policy.resolve import Policies, PolicyDefaults, overruled
from vgpu_scheduler.policy.resolved import NO_POD_LIMITS, SETTINGS, Bound, PodLimits, ResolvedPolicy
from vgpu_scheduler.policy.schema import crds

__all__ = [
    "CLUSTER_KIND",
    "GROUP",
    "NAMESPACED_KIND",
    "NO_POD_LIMITS",
    "OVERRIDES",
    "PLURALS",
    "SETTINGS",
    "VERSION",
    "Bound",
    "Catalogue",
    "PodLimits",
    "Policies",
    "PolicyDefaults",
    "PolicyError",
    "PolicyKey",
    "PolicyResource",
    "ResolvedPolicy",
    "crds",
    "decode_policy",
    "key_of",
    "overruled",
    "parse_weights",
    "title",
]
