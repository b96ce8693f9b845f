"""Constraints that a pod may drop, each with the resource that the webhook would not admit without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import by_name
from vgpu_scheduler.whatif.advice.constraints import Constraint, annotations_that_count, constraints_of
from vgpu_scheduler.whatif.advice.pod_labels import labelled_otherwise
from vgpu_scheduler.whatif.advice.remedy import Action, HypotheticalPod, Remedy, RemedyType
from vgpu_scheduler.whatif.objects.containers import containers_of, without_resources
from vgpu_scheduler.whatif.world.world import World


def leave_out_constraints(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield constraints to drop and labels to change, one at a time, without checking that this helps."""
    for constraint in droppable_constraints(waiting.world, waiting.written, waiting.is_let_in):
        yield Remedy(RemedyType.DROP_CONSTRAINT, (drop(constraint),), "", constraint.without)
    yield from labelled_otherwise(waiting.world, waiting.pod, waiting.written)


def drop(constraint: Constraint) -> Action:
    """Return the action that drops a constraint."""
    return Action(constraint.text, leaves_out=(constraint.annotation,) if constraint.annotation else ())


def droppable_constraints(world: World, written: Object, is_let_in: Callable[[Object], bool]) -> Iterator[Constraint]:
    """Yield the constraints that a pod may drop, one by one.

    If the pod would not be admitted without a constraint, try to drop each resource that specifies amounts of its cards
    as well.

    Parameters
    ----------
    is_let_in
        Tells whether another version of the pod would be admitted.
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
            yield replace(constraint, text=f"{constraint.text} and leave out {name} in {where}", without=without)
