"""The fields of written pods that list containers, and what these ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.kube.decoding import Object
from vgpu_scheduler.model import ContainerType
from vgpu_scheduler.model.untyped import mapping_of, mappings_in

CONTAINER_FIELDS: Final = ("initContainers", "containers")
"""The fields of a pod's spec that list containers which may ask for resources, in the order in which they start."""
AMOUNT_FIELDS: Final = ("limits", "requests")
"""The fields of a container's resources that list amounts."""


def typed_containers(pod: Object) -> Iterator[tuple[ContainerType, Object]]:
    """Yield the containers of a written pod with their types, init containers first."""
    spec = mapping_of(pod.get("spec"))
    first, then = CONTAINER_FIELDS
    for each in mappings_in(spec.get(first)):
        yield ContainerType.SIDECAR if each.get("restartPolicy") == "Always" else ContainerType.INIT, each
    for each in mappings_in(spec.get(then)):
        yield ContainerType.APP, each
