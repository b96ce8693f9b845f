"""Remedy for a group that does not fit within its required topology: drop the constraint, or make it a preference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from vgpu_scheduler.engine import TOPOLOGY_FIELD, TopologySources
from vgpu_scheduler.groups import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, GroupKey
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

_NEAR: Final = "schedulingConstraints"
_ELSEWHERE: Final = "no nodes with one value of the label have room for all of the group, and others may have"


def leave_topology_out(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Drop the required topology of a group's pods, or that of its object, or both if neither alone helps.

    The pods' requirement becomes a preference if that is enough.
    """
    membership = waiting.world.engine.groups.membership(waiting.pod)
    if membership is None or membership.problem:
        return
    found = False
    of_pods, of_object = list(_of_pods(waiting.world, membership.key)), list(_of_object(waiting.world, membership.key))
    together = [_both(one, other) for one in of_pods for other in of_object]
    for ways in (of_pods, of_object, together):
        for way in () if found and ways is together else ways:
            with objects_replaced(waiting.world, way.objects):
                node = waiting.node()
            if node:
                yield replace(way, node=node)
                found = True
                break


def topology_from_condition(message: str) -> Iterator[str]:
    """Yield the topology constraints that may be dropped, if a condition says that they keep the group waiting."""
    sources = TopologySources.found_in(message)
    if sources.pods:
        yield f"{_preferred('')} on all pods of the group: {_ELSEWHERE}"
    if sources.group:
        yield f"make {sources.group} without {TOPOLOGY_FIELD}: {_ELSEWHERE}"


def _preferred(which: str) -> str:
    return f"write annotation {PREFERRED_TOPOLOGY} instead of {REQUIRED_TOPOLOGY}{which}"


def _of_pods(world: World, key: GroupKey) -> Iterator[Remedy]:
    """Yield the pods of a group with a preferred instead of a required topology, and without either."""
    members = sorted(world.engine.groups.pods(key), key=lambda pod: pod.name)
    asking = [world.written(pod) for pod in members if pod.annotations.get(REQUIRED_TOPOLOGY)]
    labels = ", ".join(dict.fromkeys(annotations_in(each)[REQUIRED_TOPOLOGY] for each in asking))
    which = f" ({labels}) on {_number(asking)} of group {key}"
    if asking and not any(annotations_in(each).get(PREFERRED_TOPOLOGY) for each in asking):
        yield _way(_preferred(which), [_near(each, preferred=True) for each in asking])
    if asking:
        yield _way(
            f"leave out annotation {REQUIRED_TOPOLOGY}{which}", [_near(each, preferred=False) for each in asking]
        )


def _number(pods: Sequence[Object]) -> str:
    return "the pod" if len(pods) == 1 else f"all {counted(len(pods), 'pod')}"


def _of_object(world: World, key: GroupKey) -> Iterator[Remedy]:
    """Yield a group's object without its topology."""
    described = world.engine.groups.object_of(key)
    if described is not None and described.topology:
        written = world.pod_groups[described.kind, described.key]
        constraints = {name: each for name, each in written["spec"][_NEAR].items() if name != "topology"}
        spec = {name: each for name, each in written["spec"].items() if name != _NEAR}
        spec |= {_NEAR: constraints} if constraints else {}
        labels = ", ".join(described.topology)
        text = f"make {described.kind} {described.key} without {TOPOLOGY_FIELD} ({labels})"
        yield _way(text, [{**written, "spec": spec}])


def _way(text: str, objects: Sequence[Object]) -> Remedy:
    return Remedy(RemedyType.DROP_CONSTRAINT, do(text), "", objects=tuple(objects))


def _both(one: Remedy, other: Remedy) -> Remedy:
    return replace(one, actions=(*one.actions, *other.actions), objects=(*one.objects, *other.objects))


def _near(written: Object, *, preferred: bool) -> Object:
    """Return a pod that prefers its group's topology instead of requiring it, or does neither."""
    given = annotations_in(written)
    kept: dict[str, Any] = {name: value for name, value in given.items() if name != REQUIRED_TOPOLOGY}
    kept |= {PREFERRED_TOPOLOGY: given[REQUIRED_TOPOLOGY]} if preferred else {}
    return {**written, "metadata": {**written["metadata"], "annotations": kept}}
