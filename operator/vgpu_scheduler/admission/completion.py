"""What a pod's dialect writes into its containers at its creation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vgpu_scheduler.dialects import Claims, Dialects
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import ClaimDefaults

__all__ = ["CONTAINER_FIELDS", "completed_containers"]

CONTAINER_FIELDS: Final = ("initContainers", "containers")
"""Where the spec of a pod lists containers that may ask for devices, in the order in which they are completed."""
_AMOUNTS: Final = ("limits", "requests")


def completed_containers(
    pod: Mapping[str, Any], decoded: Pod, dialects: Dialects, defaults: ClaimDefaults | None
) -> tuple[dict[str, Any], bool]:
    """Let the pod's dialect complete each container; return the pod, and whether any container asks for devices.

    One whose names belong to several is left as it is: the scheduler refuses it.

    Parameters
    ----------
    pod
        As it is written; it is not changed.
    decoded
        The same pod.
    defaults
        What policies add to its claims; None where it is not known yet.

    Raises
    ------
    Refusal
        If the pod must not be let in.
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
    """Return a pod of which containers, annotations and fields of the spec may be changed; all else is shared."""
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
        amounts = {kind: dict(resources[kind]) for kind in _AMOUNTS if isinstance(resources.get(kind), Mapping)}
        copied["resources"] = {**resources, **amounts}
    if isinstance(container.get("env"), list):
        copied["env"] = list(container["env"])
    return copied
