"""A pod with edited requests: the fields of the form, and the pod made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from vgpu_scheduler.kube import LAST_APPLIED, Object
from vgpu_scheduler.ui.errors import BadQueryError
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.objects.containers import (
    amounts_at,
    containers_of,
    with_amount,
    with_containers,
    without_amounts,
)
from vgpu_scheduler.whatif.objects.objects import annotations_in

AMOUNT: Final = "ask/"
"""The prefix of the form's fields for amounts: ``ask/CONTAINER/RESOURCE``."""
EDITED: Final = ("edit", "annotations")


@dataclass(frozen=True, slots=True)
class Field:
    """An amount that can be edited.

    Attributes
    ----------
    amount
        The amount as written in the pod; empty if the pod does not ask for the resource.
    """

    container: str
    resource: str
    amount: str

    @property
    def name(self) -> str:
        """The name of the form's field."""
        return f"{AMOUNT}{self.container}/{self.resource}"


def fields_of(world: World, written: Object) -> list[Field]:
    """Return the amounts of a pod, and empty ones for further resources of the same vendors."""
    return [
        Field(str(container.get("name", "")), resource, amount)
        for _, _, container in sorted(containers_of(written), key=itemgetter(0))  # init containers last
        for resource, amount in _amounts(world, container).items()
    ]


def annotations_of(written: Object) -> str:
    """Return the annotations of a pod, one per line."""
    annotations = annotations_in(written)
    return "\n".join(f"{key}={text}" for key, text in annotations.items() if key != LAST_APPLIED)


def edited(world: World, written: Object, query: Query) -> Object:
    """Return a pod as if it were created with the amounts and annotations of a form.

    Raises
    ------
    BadQueryError
        If an amount or annotation cannot be understood.
    """
    spec = {key: value for key, value in written["spec"].items() if key != "nodeName"}
    known = {field.name for field in fields_of(world, written)}
    if strange := [name for name in query.values if name.startswith(AMOUNT) and name not in known]:
        raise BadQueryError(f"there is no container or resource of its cards {strange[0].removeprefix(AMOUNT)}")
    spec = with_containers(spec, lambda container: _asking(world, container, query))
    metadata = {**written["metadata"], "annotations": dict(_annotations(query))}
    return {**written, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _asking(world: World, container: Object, query: Query) -> Object:
    asking = container
    for resource in _amounts(world, container):
        amount = query.get(Field(str(container.get("name", "")), resource, "").name)
        asking = with_amount(asking, resource, amount) if amount else without_amounts(asking, (resource,))
    return asking


def _annotations(query: Query) -> Iterator[tuple[str, str]]:
    for line in query.get("annotations").splitlines():
        name, found, text = line.partition("=")
        if line.strip() and not (found and name.strip()):
            raise BadQueryError(f"annotations: {line!r} is not of the form NAME=TEXT")
        if line.strip():
            yield name.strip(), text.strip()


def _amounts(world: World, container: Object) -> dict[str, str]:
    asked = {**amounts_at(container, "requests"), **amounts_at(container, "limits")}
    found = {name: str(amount) for name, amount in asked.items()}
    for dialect in world.engine.dialects:
        known = dialect.inventory.device_resources
        vendors = {known[name].vendor for name in found if name in known}
        found |= {name: "" for name, each in known.items() if each.vendor in vendors and name not in found}
    return found
