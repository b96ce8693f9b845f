"""What a pod may leave out, each with the resource that the webhook would not let in without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import by_name
from vgpu_scheduler.whatif.advice.constraints import Constraint, annotations_that_count, constraints_of
from vgpu_scheduler.whatif.advice.pod_labels import labelled_otherwise
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyKind, do
from vgpu_scheduler.whatif.objects.containers import containers_of, without_resources
from vgpu_scheduler.whatif.world.world import World

__all__ = ["droppable_constraints", "leave_out_constraints"]


def leave_out_constraints(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield what a pod may leave out, one at a time, or say as nodes do, whether that helps or not."""
    for constraint in droppable_constraints(waiting.world, waiting.written, waiting.is_let_in):
        yield Remedy(RemedyKind.DROP_CONSTRAINT, do(constraint.text), "", constraint.without)
    yield from labelled_otherwise(waiting.world, waiting.pod, waiting.written)


def droppable_constraints(world: World, written: Object, is_let_in: Callable[[Object], bool]) -> Iterator[Constraint]:
    """Yield the constraints of a pod that it may leave out one by one.

    Where it would not be let in without one of them, each resource that says how much of its cards it wants, and may
    have to go with it, is left out, too.

    Parameters
    ----------
    is_let_in
        Tells whether the pod would be let in if it were written so.
    """
    for constraint in constraints_of(written, annotations_that_count(world)):
        if is_let_in(constraint.without):
            yield constraint
        else:
            yield from _with_resources(world, constraint, is_let_in)


def _with_resources(world: World, constraint: Constraint, is_let_in: Callable[[Object], bool]) -> Iterator[Constraint]:
    known = {
        name
        for dialect in world.engine.dialects
        for name, about in dialect.inventory.device_resources.items()
        if about.dimension != SLOTS
    }
    asking: dict[str, list[str]] = {}
    for _, _, container in containers_of(constraint.without):
        resources = container.get("resources") or {}
        for name in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}:
            if name in known:
                asking.setdefault(name, []).append(str(container.get("name", "")))
    for name, containers in asking.items():
        without = without_resources(constraint.without, [name])
        if is_let_in(without):
            where = by_name("container", containers)
            yield Constraint(constraint.name, f"{constraint.text} and leave out {name} in {where}", without)
