"""What is said of the group of a pod: how many are needed at once, which are there, and why others do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vgpu_scheduler.engine import GroupStatus
from vgpu_scheduler.engine.group_attempts import missing_object_in, needed_pods_in
from vgpu_scheduler.groups import GroupKey, membership
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import counted, first_of
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.objects.schedulers import meant_scheduler
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "describe_group",
    "group_named_by",
    "group_remedies",
    "group_remedies_from_condition",
    "not_found",
    "not_moved",
]


def describe_group(world: World, group: GroupStatus) -> str:
    """Say how far a group is, in a few lines."""
    if group.problem:
        return f"It belongs to group {group.key}, which is not placed: {group.problem}."
    if group.missing_object:
        described = f"{group.missing_object} {group.key} would describe"
        return f"It belongs to group {group.key}, which {described}: it {group.why_missing}."
    minimum = counted(group.minimum, "pod")
    lines = [f"It belongs to group {group.key}, of which at least {minimum} run, or none:"]
    lines += _different_numbers(group)
    lines += [f"  {group.placed} placed or succeeded"] if group.placed else []
    waiting = few([pod.name for pod in group.waiting], "pods")
    at_once = (
        f"{group.needed} of {len(group.waiting)}" if len(group.waiting) > group.needed else f"{len(group.waiting)}"
    )
    if group.needed:
        lines += [f"  {at_once} to be placed at once: {waiting}"]
    else:
        alone = "by itself" if len(group.waiting) == 1 else "each by itself"
        lines += [f"  {len(group.waiting)} to be placed, {alone}: {waiting}"]
    lines += [f"  {name}: {why}" for name, why in _others(world, group.key)]
    missing = group.needed - len(group.waiting)
    lines += [f"  {counted(missing, 'more pod')} needed before any is placed"] if missing > 0 else []
    return "\n".join(lines)


def _different_numbers(group: GroupStatus) -> list[str]:
    """Return a line about the numbers that pods of a group need at once, where they do not say the same."""
    by_number: dict[int, list[str]] = {}
    for pod in group.waiting:
        if (said := membership(pod)) is not None and said.minimum is not None:
            by_number.setdefault(said.minimum, []).append(pod.name)
    numbers = ", ".join(f"{number} ({few(names, 'pods')})" for number, names in sorted(by_number.items()))
    return [f"  its pods name different numbers, of which the largest counts: {numbers}"] if len(by_number) > 1 else []


_MOST_OTHERS: Final = 3
"""Pods of a group that do not count of which it is said why not."""


def group_named_by(pod: Pod) -> str:
    """Say by what a pod names which group; empty where it names none, or what it says of it cannot be understood."""
    said = membership(pod)
    return "" if said is None or said.problem else f"{said.said_by} names group {said.key}"


def group_remedies(world: World, pod: Pod) -> Iterator[str]:
    """Yield what has to be done about the group of a pod before it can be placed, whatever the nodes are."""
    groups = world.engine.groups
    said = groups.membership(pod)
    if said is None:
        return
    if said.problem:
        yield f"correct {said.problem}"
        return
    group, described = groups.status(said.key), groups.object_of(said.key)
    if described is not None and described.unsupported:
        yield f"make {described.kind} {described.key} without {described.unsupported}"
    elif group.missing_object:
        if group.does_not_exist:
            yield f"create {group.missing_object} {group.key}, or correct the name"
    elif (missing := group.needed - len(group.waiting)) > 0:
        others = list(_others(world, group.key))
        listed = first_of([f"{name} ({why})" for name, why in others], _MOST_OTHERS)
        or_have = f", or have others count: {listed}" if others else ""
        yield f"create {counted(missing, 'more pod')} of group {group.key}{or_have}"


def group_remedies_from_condition(message: str) -> Iterator[str]:
    """Yield what has to be done about the group of a pod by what its condition says."""
    if missing := missing_object_in(message):
        yield f"create {missing}, or correct the name"
    if incomplete := needed_pods_in(message):
        group, needed = incomplete
        yield f"have {counted(needed, 'pod')} of group {group} wait for this scheduler, or run"


def not_found(group: GroupStatus) -> str:
    """Say that no change was found with which a group fits, and what was not searched."""
    return (
        f"none was found with which all pods of group {group.key} fit that are placed at once; what keeps them near"
        " each other, cordons, broken nodes, single pods that could end, quotas, limits, policies and up to 8 new nodes"
        " were tried, each alone, in a large cluster only some of them; not how much the pods ask for"
    )


def not_moved(group: GroupStatus) -> str:
    """Say why no moves are searched for a pod."""
    return f"it is placed together with other pods of group {group.key}, and moves are searched for single pods alone"


def _others(world: World, key: GroupKey) -> Iterator[tuple[str, str]]:
    """Yield the pods of a group that do not count, each with the reason."""
    for pod in sorted(world.pending.values(), key=lambda pod: pod.name):
        said = membership(pod)
        if said is not None and said.key == key and (why := said.problem or _kept_out(world, pod)):
            yield pod.name, why


def _kept_out(world: World, pod: Pod) -> str:
    engine, named = world.engine, pod.scheduler_name
    if named not in engine.scheduler_names:
        if meant := meant_scheduler(named, engine.scheduler_names, engine.coexist_with):
            anew = f"if {meant} is meant, create it anew with spec.schedulerName: {meant}"
            return f"names scheduler {named}, which is not known here; {anew}"
        return f"names scheduler {named}, and counts once that has placed it"
    return f"is {reason}" if (reason := gated(pod)) else ""
