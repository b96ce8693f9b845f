"""Policy resources as the API server hands them out."""

from __future__ import annotations

from itertools import count
from typing import Any

from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, PolicyResource, decode_policy

_versions = count(1)


def policy_object(name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return a policy; without a namespace it is a cluster policy."""
    version = next(_versions)
    metadata = {"name": name, "uid": f"uid-{name}", "generation": version, "resourceVersion": str(version)}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": NAMESPACED_KIND if namespace else CLUSTER_KIND,
        "metadata": metadata,
        "spec": spec,
    }


def policy(name: str, spec: dict[str, Any], namespace: str = "") -> PolicyResource:
    """Return a policy as the program sees it."""
    return decode_policy(policy_object(name, spec, namespace))
