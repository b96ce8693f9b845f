"""The containers of pods as written, init containers first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from vgpu_scheduler.kube import Object

_FIELDS: Final = ("initContainers", "containers")
_PLACES: Final = ("limits", "requests")


def containers_of(written: Object) -> Iterator[tuple[str, int, Object]]:
    """Yield each container of a pod with the field of the spec that lists it, and its index there."""
    spec = written.get("spec") or {}
    for field in _FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield field, index, container


def with_containers(spec: Object, change: Callable[[Object], Object]) -> dict[str, Any]:
    """Return a pod spec with a change applied to each container."""
    listed = {field: [change(each) for each in spec[field]] for field in _FIELDS if spec.get(field)}
    return {**spec, **listed}


def without_resources(written: Object, names: Collection[str], containers: Collection[str] | None = None) -> Object:
    """Return a pod that asks for none of these resources, in all containers or in the named ones."""

    def change(each: Object) -> Object:
        return _asking_less(each, names) if containers is None or each.get("name") in containers else each

    return {**written, "spec": with_containers(written["spec"], change)}


def _asking_less(container: Object, names: Collection[str]) -> Object:
    resources = dict(container.get("resources") or {})
    for place in _PLACES:
        if place in resources:
            resources[place] = {name: amount for name, amount in resources[place].items() if name not in names}
    return {**container, "resources": resources}
