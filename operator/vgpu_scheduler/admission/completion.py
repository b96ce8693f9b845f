"""What a dialect writes into a pod's containers when the pod is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.dialects import Claims, Dialects
from vgpu_scheduler.kube import AMOUNT_FIELDS, CONTAINER_FIELDS, Pod
from vgpu_scheduler.model import ClaimDefaults


def completed_containers(
    pod: Mapping[str, Any], decoded: Pod, dialects: Dialects, defaults: ClaimDefaults | None
) -> tuple[dict[str, Any], bool]:
    """Let the pod's dialect complete each container; return the pod, and whether a container asks for devices.

    A pod whose resource names belong to several dialects is left as it is: the scheduler refuses it.

    Parameters
    ----------
    pod
        The pod as it was sent; it is not modified.
    decoded
        The same pod, decoded.
    defaults
        What policies add to its claims; None if it is not known yet.

    Raises
    ------
    AdmissionDenied
        If the pod must be denied.
    """
    completed, owners = _copy(pod), dialects.owners(decoded)
    if len(owners) > 1:
        return completed, True
    completing: list[Claims] = [dialect.claims for dialect in owners or dialects]
    asks, unclaimed = False, defaults is not None and defaults.memory is None and defaults.cores is None
    for field in CONTAINER_FIELDS:
        for container in completed["spec"].get(field) or ():
            for claims in completing:
                asks = claims.complete(completed, container, unclaimed=unclaimed) or asks
    return completed, asks


def _copy(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a pod so that its containers, annotations and spec fields may be changed; the rest is shared."""
    copied, spec = dict(pod), dict(pod["spec"])
    if isinstance(metadata := pod.get("metadata"), Mapping):
        copied["metadata"] = dict(metadata)
        if isinstance(annotations := metadata.get("annotations"), Mapping):
            copied["metadata"]["annotations"] = dict(annotations)
    for field in CONTAINER_FIELDS:
        if spec.get(field):
            spec[field] = [_copy_of_container(each) for each in spec[field]]
    return {**copied, "spec": spec}


def _copy_of_container(container: Mapping[str, Any]) -> dict[str, Any]:
    copied = dict(container)
    if isinstance(resources := container.get("resources"), Mapping):
        amounts = {kind: dict(resources[kind]) for kind in AMOUNT_FIELDS if isinstance(resources.get(kind), Mapping)}
        copied["resources"] = {**resources, **amounts}
    if isinstance(container.get("env"), list):
        copied["env"] = list(container["env"])
    return copied
