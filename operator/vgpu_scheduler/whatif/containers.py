"""The containers of pods as they are written, init containers first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from vgpu_scheduler.kube import Object

__all__ = ["containers_of", "with_containers"]


_FIELDS: Final = ("initContainers", "containers")


def containers_of(written: Object) -> Iterator[tuple[str, int, Object]]:
    """Yield each container of a pod with the field of its spec that lists it, and its place there."""
    spec = written.get("spec") or {}
    for field in _FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield field, index, container


def with_containers(spec: Object, change: Callable[[Object], Object]) -> dict[str, Any]:
    """Return the spec of a pod with each of its containers changed."""
    listed = {field: [change(each) for each in spec[field]] for field in _FIELDS if spec.get(field)}
    return {**spec, **listed}
