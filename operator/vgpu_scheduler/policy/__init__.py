"""Policies: what is in force for a pod, and where each part of it came from."""

from vgpu_scheduler.policy.resolve import Policies, PolicyDefaults, PolicyError, ResolvedPolicy, parse_weights

__all__ = ["Policies", "PolicyDefaults", "PolicyError", "ResolvedPolicy", "parse_weights"]
