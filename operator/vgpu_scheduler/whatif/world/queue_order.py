"""The waiting pods in queue order, and the world as it is once they have been placed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from vgpu_scheduler.engine import queue_key
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World


class PodsBeforeAndAfter(NamedTuple):
    """The other waiting pods without a reservation, before and after one pod in the queue.

    Attributes
    ----------
    before
        Pods of higher priority, and pods of equal priority that were created earlier or in the same second.
    after
        The others.
    """

    before: list[Pod]
    after: list[Pod]


def pods_before_and_after(world: World, pod: Pod, *, made_anew: bool = False) -> PodsBeforeAndAfter:
    """Return the pods that this scheduler tries before and after a pod, in queue order.

    Pods with scheduling gates, pods refused for an invalid group declaration and pods of other schedulers are not in
    the queue. Creation times have a resolution of one second, so the pod is taken to be the last of those created in
    its second. Pods of one gang are tried when the first of them is, and are not listed among the others.

    Parameters
    ----------
    made_anew
        The pod is recreated, so it comes after all pods of its priority.
    """
    members = _members(world, pod)
    rank = partial(rank_in_queue, world)
    listed = [each for each in queue_of(world) if each.uid not in members]
    mine = (rank(pod)[0], math.inf) if made_anew else min(map(rank, members.values()))
    return PodsBeforeAndAfter(
        [each for each in listed if rank(each) <= mine], [each for each in listed if rank(each) > mine]
    )


def own_turn(world: World, pod: Pod) -> list[Pod]:
    """Return a pod that fits nowhere, if this scheduler tries it: room may be reserved for it in its turn."""
    return [pod] if pod.uid in world.pending and world.engine.is_to_place(pod) else []


def _members(world: World, pod: Pod) -> dict[str, Pod]:
    """Return a pod and the waiting pods that are scheduled as a gang with it, by UID."""
    group = world.engine.attempts.gang_status(pod)
    return {each.uid: each for each in (pod, *(group.waiting if group is not None and group.has_quorum else ()))}


def pods_as_old(world: World, pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """Return the pods with the priority and creation second of a pod: whether they come before it is unknown.

    Objects carry their creation time to the second; only the scheduler knows the order within one.
    """
    priority = world.engine.groups.priority
    return [
        each for each in others if priority(each) == priority(pod) and each.creation_timestamp == pod.creation_timestamp
    ]


def places_in_queue(world: World) -> dict[str, int]:
    """Return the 1-based queue position of each waiting pod, by UID.

    Positions follow :func:`pods_before_and_after`: pods created in the same second all have the last position among
    them, and pods of one gang share one.
    """
    listed, rank = queue_of(world), partial(rank_in_queue, world)
    ranks, found = {each.uid: rank(each) for each in listed}, dict[str, int]()
    ordered = list(ranks.values())
    alone: set[Hashable] = set()
    for pod in listed:
        if pod.uid not in found:
            key = world.engine.groups.key_of(pod.uid)
            members = {pod.uid: pod} if key in alone else _members(world, pod)
            alone |= {key} if len(members) == 1 else set()
            first = min(map(rank, members.values()))
            others = bisect_right(ordered, first) - sum(ranks.get(uid) == first for uid in members)
            found |= dict.fromkeys(members, others + 1)
    return {pod.uid: found[pod.uid] for pod in listed}


def queue_of(world: World) -> list[Pod]:
    """Return the pods in this scheduler's queue, in order."""
    state, names = world.engine.state, world.engine.scheduler_names
    listed = [
        each
        for each in world.pending.values()
        if each.scheduler_name in names
        and not gated(each)
        and not world.engine.groups.problem(each)
        and state.reservation(each.uid) is None
    ]
    return sorted(listed, key=partial(rank_in_queue, world))


def rank_in_queue(world: World, pod: Pod) -> tuple[int, float]:
    """Return the sort key of a pod in queue order; see :func:`queue_key`."""
    return queue_key(pod, world.engine.groups.priority(pod))


@contextmanager
def placing(world: World, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Place pods that the engine knows one after the other where they fit; yield those placed, and undo it on exit.

    Pods that would preempt keep room reserved, as they do until their victims have left.
    """
    with world.engine.attempts.rolled_back():
        yield from _placing(world, pods)


def _placing(world: World, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    state, attempts = world.engine.state, world.engine.attempts
    found: list[Pod] = []
    decisions: list[Decision] = []
    refused: set[Hashable] = set()
    tried: set[str] = set()
    before = attempts.reserver.before()
    try:
        for pod in pods:
            ours = created(world, pod, pod.uid)
            alike = answer_key(ours)
            if alike in refused or pod.uid in tried or state.reservation(pod.uid) is not None:
                continue
            if (gang := attempts.gang_status(ours)) is not None:
                tried.update(each.uid for each in gang.waiting)  # one attempt for all of them, as in the queue
            together = [each for each in attempts.decide(ours, 0.0) if each.outcome is Outcome.PLACED]
            decisions += together
            found += [there for each in together if (there := state.pod(each.uid)) is not None]
            if not together and _is_refused_for_good(world, ours):
                refused.add(alike)
        yield found
    finally:
        attempts.reserver.undo(decisions, before)


def _is_refused_for_good(world: World, pod: Pod) -> bool:
    """Tell whether equal pods cannot fit either when a pod is tried and fits nowhere, whatever is placed meanwhile."""
    state, engine = world.engine.state, world.engine
    if state.nominations or state.holds.get(pod.uid) is not None or engine.attempts.gang_status(pod) is not None:
        return False
    return engine.algorithm.classes.cluster_part(pod) is None and not engine.attempts.waiting_holds.has_ended(pod.uid)


def that_may_gain(world: World, waiting: Sequence[Pod], gone: Sequence[Pod], node: str) -> list[Pod]:
    """Return those of waiting pods, which fit nowhere now, that may fit once some pods are gone, or use a node.

    The others fit nowhere then, either. Asking about fewer saves searches for the victims of groups, which take long.
    All are returned if one for which room is kept may gain: placed elsewhere, it leaves that room to the others.

    Parameters
    ----------
    gone
        The pods that are gone; a waiting pod may gain if it may use a node of theirs.
    node
        A further node.
    """
    engine = world.engine
    rows = [
        row for each in {node, *(pod.node_name for pod in gone)} if (row := engine.state.nodes.row(each)) is not None
    ]
    limited = engine.quota_limits.limited({pod.namespace for pod in gone})
    known: dict[Hashable, bool] = {}

    def may_gain(pod: Pod) -> bool:
        pod_class = engine.algorithm.classes.of(pod)
        if isinstance(pod_class, RefusedClass):
            return False
        across_nodes = pod_class.cluster is not None or pod_class.claimed.peer_keys or pod.spec.volume_claims
        if across_nodes or pod.namespace in limited:
            return True
        key = pod_class.node, pod.priority
        if key not in known:
            possible = engine.algorithm.filter(pod, pod_class).possible_rows()
            known[key] = bool(np.isin(possible, rows).any())
        return known[key]

    def keeps_room(pod: Pod) -> bool:
        return bool(pod.nominated_node_name) or engine.state.holds.get(pod.uid) is not None

    found: list[Pod] = []
    for pod in waiting:
        tried = _members(world, pod).values()
        if any(map(may_gain, tried)):
            if any(map(keeps_room, tried)):
                return list(waiting)
            found.append(pod)
    return found


def answer_key(pod: Pod) -> Hashable:
    """Return a key that equal pods share, which get the same answer when tried one after the other."""
    texts = (frozenset(each.items()) for each in (pod.labels, pod.annotations))
    return (pod.spec.fingerprint, pod.namespace, pod.priority, *texts)


@contextmanager
def made_anew(world: World, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Have the engine observe the pods that controllers create in place of some pods; remove them on exit."""
    engine = world.engine
    made: list[Pod] = []
    try:
        for pod in pods:
            made.append(created(world, pod, world.new_uid()))
            engine.observe_pod(made[-1], 0.0)
            engine.queue.remove(made[-1].uid)
            engine.preemptions.evaluator.ungated(made[-1].uid, 0.0)  # it waits from now on, not since its pod was made
        yield made
    finally:
        for pod in reversed(made):
            engine.remove_pod(pod.uid, 0.0)
