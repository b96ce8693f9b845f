"""Describe a pod's group: how many pods it needs at once, which are there, and why others do not count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from vgpu_scheduler.engine import GroupStatus
from vgpu_scheduler.engine.group_attempts import missing_object_in, needed_pods_in
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.groups import membership as membership_of
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import counted, did_you_mean_object, first_of
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.objects.schedulers import meant_scheduler
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World


def describe_group(world: World, group: GroupStatus) -> str:
    """Describe the status of a group in a few lines."""
    if group.problem:
        return f"It belongs to group {group.key}, which is not placed: {group.problem}."
    if group.missing_object:
        described = f"{group.missing_object} {group.key} would describe"
        wrong = _what_is_wrong(world, group)
        return f"It belongs to group {group.key}, which {described}: it {group.why_missing}{wrong and f' ({wrong})'}."
    group, later = with_gated(world, group)
    minimum = f"{counted(group.minimum, 'pod')} {'runs' if group.minimum == 1 else 'run'}"
    lines = [f"It belongs to group {group.key}, of which at least {minimum}, or none:"]
    lines += _different_numbers(group)
    lines += [f"  {group.placed} placed or succeeded"] if group.placed else []
    waiting = few([pod.name for pod in group.waiting], "pods")
    at_once = (
        f"{group.needed} of {len(group.waiting)}" if len(group.waiting) > group.needed else f"{len(group.waiting)}"
    )
    if not group.waiting:
        lines += ["  none to be placed yet"]
    elif group.needed:
        lines += [f"  {at_once} to be placed at once: {waiting}"]
    else:
        alone = "by itself" if len(group.waiting) == 1 else "each by itself"
        lines += [f"  {len(group.waiting)} to be placed, {alone}: {waiting}"]
    lines += [f"  {name}: {why}" for name, why in _others(world, group.key)]
    missing = group.needed - len(group.waiting)
    gates = min(missing, len(later))
    of_them = "it has" if missing == 1 else f"{gates} of them {'has' if gates == 1 else 'have'}"
    with_gates = f"; {of_them} scheduling gates" if gates > 0 else ""
    lines += [f"  {counted(missing, 'more pod')} needed before any is placed{with_gates}"] if missing > 0 else []
    return "\n".join(lines)


def with_gated(world: World, group: GroupStatus) -> tuple[GroupStatus, list[Pod]]:
    """Return the status of a group with the minimum that it has once its pods have no gates, and its gated pods.

    The scheduler leaves out what gated pods declare until their gates are removed.
    """
    groups = world.engine.groups
    members = {each.uid: each for each in groups.pods(group.key)}
    later = [each for each in members.values() if gated(each) and _comes_later(world, each)]
    declared = [groups.membership(each) for each in (*group.waiting, *later)]
    minimum = max((each.minimum or 0 for each in declared if each is not None), default=0)
    return replace(group, minimum=minimum or group.minimum), sorted(later, key=lambda pod: pod.name)


def _comes_later(world: World, pod: Pod) -> bool:
    """Tell whether a gated pod counts towards its group once its gates are removed."""
    membership, is_there = world.engine.groups.membership(pod), not (pod.node_name or pod.terminal or pod.deleting)
    is_ours = pod.scheduler_name in world.engine.scheduler_names
    return is_there and is_ours and membership is not None and not membership.problem


def _what_is_wrong(world: World, group: GroupStatus) -> str:
    """Say which field of the object that describes a group cannot be read, and why; empty if none is known."""
    error = world.engine.groups.unreadable.get((group.missing_object, str(group.key)), "")
    return error.removeprefix(f"{group.missing_object} {group.key}: ")


def _different_numbers(group: GroupStatus) -> list[str]:
    """Return a line about the minimums that pods of a group declare, if they differ."""
    by_number: dict[int, list[str]] = {}
    for pod in group.waiting:
        if (membership := membership_of(pod)) is not None and membership.minimum is not None:
            by_number.setdefault(membership.minimum, []).append(pod.name)
    numbers = ", ".join(f"{number} ({few(names, 'pods')})" for number, names in sorted(by_number.items()))
    return [f"  its pods name different numbers, of which the largest is used: {numbers}"] if len(by_number) > 1 else []


_MOST_OTHERS: Final = 3
"""The most pods that do not count towards the group for which the reason is given."""


def group_named_by(pod: Pod) -> str:
    """Say which group a pod names, and by which field; empty if it names none or its declaration is invalid."""
    membership = membership_of(pod)
    return "" if membership is None or membership.problem else f"{membership.said_by} names group {membership.key}"


def group_remedies(world: World, pod: Pod) -> Iterator[str]:
    """Yield what to do about a pod's group before the pod can be placed on any node."""
    groups = world.engine.groups
    membership = groups.membership(pod)
    if membership is None:
        return
    if membership.problem:
        yield f"correct {membership.problem}"
        return
    group, described = groups.status(membership.key), groups.object_of(membership.key)
    if described is not None and described.unsupported:
        field, _, exception = described.unsupported.removesuffix(",").partition(", ")
        yield f"make {described.kind} {described.key} without {field}{exception and f' ({exception})'}"
    elif group.missing_object:
        if wrong := _what_is_wrong(world, group):
            yield f"correct {group.missing_object} {group.key}: {wrong}"
        elif group.does_not_exist:
            meant = _meant_object(world, group)
            yield f"create {group.missing_object} {group.key}, or correct the name{meant}"
    else:
        yield from _missing_pods(world, pod, group)


def _missing_pods(world: World, pod: Pod, now: GroupStatus) -> Iterator[str]:
    """Yield which pods a group lacks: those that have scheduling gates, and those that do not exist."""
    group, later = with_gated(world, now)
    missing = group.needed - len(group.waiting)
    if missing <= 0:
        return
    gates = [f"{each.name} ({', '.join(each.spec.scheduling_gates)})" for each in later]
    which = counted(missing, "pod") if missing == len(gates) else f"{missing} of {counted(len(gates), 'pod')}"
    listed = first_of(gates, _MOST_OTHERS)
    others = [f"{name} ({why})" for name, why in _others(world, group.key) if name not in {each.name for each in later}]
    or_have = f", or include others: {first_of(others, _MOST_OTHERS)}" if others else ""
    meant = _meant_group(world, pod, group)
    if missing <= len(gates):
        exist = "exists" if len(gates) == 1 else "exist"
        where = f"of group {group.key}, which {exist}, are removed"
        yield f"wait until the scheduling gates of {which} {where}: {listed}{or_have}"
        return
    and_wait = f"; and wait until the scheduling gates of those that exist are removed: {listed}" if gates else ""
    yield f"create {counted(missing - len(gates), 'more pod')} of group {group.key}{or_have}{meant}{and_wait}"


def _meant_object(world: World, group: GroupStatus) -> str:
    """Suggest the object of the namespace whose name is like that of the missing one."""
    there = world.engine.groups.stores[group.missing_object]
    names = (found.name for found in there if found.namespace == group.key.namespace)
    return did_you_mean_object(group.key.name, names)


def _meant_group(world: World, pod: Pod, group: GroupStatus) -> str:
    """Suggest to correct the group's name, if it is like that of a group that has fewer pods than it needs, too."""
    groups = world.engine.groups
    keys = {membership.key for other in world.pending.values() if (membership := groups.membership(other)) is not None}
    names = [
        key.name
        for key in keys - {group.key}
        if (key.source, key.namespace) == (group.key.source, group.key.namespace)
        and (other := groups.status(key)).needed > len(other.waiting)
    ]
    meant = did_you_mean_object(group.key.name, names)
    return f"; or correct the name of the group of pod {pod.name}{meant}" if meant else ""


def whom_requests_concern(world: World, pod: Pod) -> str:
    """Return which other pods need the same change of requests as a pod; empty for a pod that is placed alone.

    A gang is placed as a whole, so what helps one of several equal pods alone may leave the others without room.
    """
    group = world.engine.groups.status_of(pod)
    if group is None:
        return ""
    others = [each for each in group.waiting if each.uid != pod.uid]
    if not group.missing_object and (group.needed <= 1 or not others):
        return ""
    with_others = f"It is placed together with other pods of its group {group.key}"
    if not others:
        return f"{with_others}: change the requests of all pods of the group that request the same."
    claims = world.engine.algorithm.classes.claims
    alike = [each for each in others if claims(each) == claims(pod) and each.spec.requests == pod.spec.requests]
    if not alike:
        return f"{with_others}, which request something else: what is said of requests concerns this pod alone."
    names = few([each.name for each in alike], "pods")
    return f"{with_others}: change the requests of {names}, which are the same, in the same way."


def group_remedies_from_condition(message: str) -> Iterator[str]:
    """Yield what to do about a pod's group, derived from the message of the pod's condition."""
    if missing := missing_object_in(message):
        yield f"create {missing}, or correct the name"
    if incomplete := needed_pods_in(message):
        group, needed = incomplete
        yield f"have {counted(needed, 'pod')} of group {group} wait for this scheduler, or run"


def not_found(group: GroupStatus) -> str:
    """Say that no change was found with which a group fits, and what was not tried."""
    return (
        f"none was found with which all pods of group {group.key} that are placed at once fit; topology "
        "constraints, cordons, broken nodes, single pods that could end, quotas, limits, policies and up to 8 "
        "new nodes were tried, each alone, and in a large cluster only some of them; the requests of the pods "
        "were not changed"
    )


def not_moved(group: GroupStatus) -> str:
    """Say why no moves are searched for a gang's pod."""
    return f"it is placed together with other pods of group {group.key}, and moves are searched for single pods only"


def _others(world: World, key: GroupKey) -> Iterator[tuple[str, str]]:
    """Yield the pods of a group that do not count towards it, each with the reason."""
    for pod in sorted(world.pending.values(), key=lambda pod: pod.name):
        membership = membership_of(pod)
        if membership is not None and membership.key == key and (why := membership.problem or _kept_out(world, pod)):
            yield pod.name, why


def _kept_out(world: World, pod: Pod) -> str:
    engine, named = world.engine, pod.scheduler_name
    if named not in engine.scheduler_names:
        if meant := meant_scheduler(named, engine.scheduler_names, engine.coexist_with):
            anew = f"if {meant} is meant, create it anew with spec.schedulerName: {meant}"
            return f"names scheduler {named}, which is not known here; {anew}"
        return f"names scheduler {named}, and counts once that has placed it"
    return f"is {reason}" if (reason := gated(pod)) else ""
