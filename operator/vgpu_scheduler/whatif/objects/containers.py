"""The containers of pods as written, init containers first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from vgpu_scheduler.kube import AMOUNT_FIELDS, CONTAINER_FIELDS, Object


def containers_of(written: Object) -> Iterator[tuple[str, int, Object]]:
    """Yield each container of a pod with the field of the spec that lists it, and its index there."""
    spec = written.get("spec") or {}
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield field, index, container


def with_containers(spec: Object, change: Callable[[Object], Object]) -> dict[str, Any]:
    """Return a pod spec with a change applied to each container."""
    listed = {field: [change(each) for each in spec[field]] for field in CONTAINER_FIELDS if spec.get(field)}
    return {**spec, **listed}


def without_resources(written: Object, names: Collection[str], containers: Collection[str] | None = None) -> Object:
    """Return a pod that asks for none of these resources, in all containers or in the named ones."""

    def change(each: Object) -> Object:
        return without_amounts(each, names) if containers is None or each.get("name") in containers else each

    return {**written, "spec": with_containers(written["spec"], change)}


def amounts_at(container: Object, place: str) -> Object:
    """Return the limits or requests of a container; empty if there are none, or they are no mapping."""
    found = (container.get("resources") or {}).get(place)
    return found if isinstance(found, Mapping) else {}


def amounts_asked(container: Object) -> dict[str, Any]:
    """Return the amount that a container asks of each resource: its request, or else its limit."""
    return {**amounts_at(container, "limits"), **amounts_at(container, "requests")}


def with_amounts(
    container: Object, change: Callable[[Object], Object], places: Collection[str] = AMOUNT_FIELDS
) -> Object:
    """Return a container with changed limits and requests."""
    resources = dict(container.get("resources") or {})
    for place in places:
        if (after := change(amounts_at(container, place))) or place in resources:
            resources[place] = after
    return {**container, "resources": resources}


def with_amount(container: Object, resource: str, amount: str, places: Collection[str] = ()) -> Object:
    """Return a container that asks for an amount of a resource.

    Parameters
    ----------
    places
        Where it does so; by default where it asks for the resource already, or else in its limits.
    """
    asking = [place for place in AMOUNT_FIELDS if resource in amounts_at(container, place)]
    return with_amounts(container, lambda listed: {**listed, resource: amount}, places or asking or ("limits",))


def with_container(written: Object, field: str, index: int, container: Object) -> Object:
    """Return a pod with one container replaced."""
    spec = written["spec"]
    listed = [*spec[field][:index], container, *spec[field][index + 1 :]]
    return {**written, "spec": {**spec, field: listed}}


def without_amounts(container: Object, names: Collection[str]) -> Object:
    """Return a container that asks for none of these resources."""
    return with_amounts(container, lambda listed: {name: listed[name] for name in listed if name not in names})
