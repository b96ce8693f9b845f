"""API server admission of pods: the defaults that pods in files may lack, and the refusals that they may deserve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vgpu_scheduler.kube import (
    CONTAINER_FIELDS,
    HUGE_PAGES,
    NATIVE_RESOURCES,
    Object,
    Pod,
    QuantityError,
    is_pod_level,
    parse_quantity,
)

_NATIVE: Final = "kubernetes.io"
"""The domain of Kubernetes' own resources; all others are extended resources."""
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes of every cluster."""


def with_defaults(pod: Object, classes: Mapping[str, int]) -> Object:
    """Return a pod with the requests implied by its limits and the priority of its class.

    Malformed fields are kept, so that the decoder reports them.

    Parameters
    ----------
    pod
        The pod as it is written.
    classes
        Priority by name of the class.
    """
    spec = pod.get("spec")
    if not isinstance(spec, Mapping):
        return pod
    filled = dict(spec)
    for field in CONTAINER_FIELDS:
        if isinstance(spec.get(field), list):
            filled[field] = [_container(container) for container in spec[field]]
    if isinstance(spec.get("resources"), Mapping):
        filled["resources"] = _pod_level(spec["resources"], filled)
    name = missing_class(pod)
    if name in classes:
        filled["priority"] = classes[name]
    return {**pod, "spec": filled}


def missing_class(pod: Object) -> str:
    """Return the priority class that a pod names without having a priority, or an empty string."""
    spec = pod.get("spec")
    if not isinstance(spec, Mapping) or spec.get("priority") is not None:
        return ""
    name = spec.get("priorityClassName")
    return name if isinstance(name, str) else ""


def admission_errors(pod: Pod) -> Iterator[str]:
    """Yield the reasons for which the API server would refuse a pod's resources: device requests must equal limits."""
    for container in pod.spec.containers:
        for place, amounts in (("limits", container.limits), ("requests", container.requests)):
            for name in amounts if place == "limits" else amounts.keys() - container.limits.keys():
                if "/" not in name and name not in NATIVE_RESOURCES and not name.startswith(HUGE_PAGES):
                    yield (
                        f"container {container.name}: resources.{place}[{name}] is not one of Kubernetes' own "
                        "resources, and has no domain, such as nvidia.com/gpu: the API server refuses such a "
                        "pod"
                    )
        for name, text in container.requests.items():
            if "/" not in name or name.rpartition("/")[0].endswith(_NATIVE):
                continue
            if not _equal(text, container.limits.get(name)):
                yield (
                    f"container {container.name}: resources.requests[{name}] differs from resources.limits: the "
                    "API server refuses such a pod"
                )


def _equal(text: str, other: str | None) -> bool:
    try:
        return other is not None and parse_quantity(text) == parse_quantity(other)
    except QuantityError:
        return True  # the decoder reports malformed quantities


def _container(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, Mapping) else None
    if not isinstance(resources, Mapping):
        return container
    limits, requests = resources.get("limits"), resources.get("requests") or {}
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _pod_level(resources: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod-level resources; limits become requests where neither the pod nor a container has requests.

    Source: ``defaultPodRequests`` of Kubernetes 1.36. Container requests are not added: they count by themselves.
    """
    limits, requests = resources.get("limits"), resources.get("requests") or {}
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping):
        return resources
    asked = {name for field in CONTAINER_FIELDS for each in spec.get(field) or () for name in _requested(each)}
    implied = {name: amount for name, amount in limits.items() if is_pod_level(name) and name not in asked}
    return {**resources, "requests": {**implied, **requests}}


def _requested(container: Any) -> Mapping[str, Any]:
    resources = container.get("resources") if isinstance(container, Mapping) else None
    requests = resources.get("requests") if isinstance(resources, Mapping) else None
    return requests if isinstance(requests, Mapping) else {}
