"""Pods that wait, in the order in which they are served, and what becomes of others while they have their places."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "PodsWaitingBeside",
    "answer_key",
    "made_anew",
    "placed",
    "places_in_queue",
    "pods_as_old",
    "pods_waiting_beside",
    "queue_of",
]


class PodsWaitingBeside(NamedTuple):
    """The pods that wait beside one, and have no place yet.

    Attributes
    ----------
    before
        Those of higher priority, and those of the same that came earlier or at the same time.
    after
        The others.
    """

    before: list[Pod]
    after: list[Pod]


def pods_waiting_beside(world: World, pod: Pod, *, made_anew: bool = False) -> PodsWaitingBeside:
    """Return the pods that this scheduler serves before a pod, and after it, in the order of their turns.

    Pods behind scheduling gates have no turn, nor have those that are refused for what they say of their group, and
    those of other schedulers have none here. Of pods that came within
    the same second nobody can say which is served first: the pod is taken to be the last of them. Pods that are placed
    together have their turn when the first of them has; they are not among the others.

    Parameters
    ----------
    made_anew
        The pod is another one, which comes after all of its priority.
    """
    members = _members(world, pod)
    rank = partial(_rank, world)
    listed = [each for each in queue_of(world) if each.uid not in members]
    mine = (rank(pod)[0], math.inf) if made_anew else min(map(rank, members.values()))
    return PodsWaitingBeside(
        [each for each in listed if rank(each) <= mine], [each for each in listed if rank(each) > mine]
    )


def _members(world: World, pod: Pod) -> dict[str, Pod]:
    """Return a pod, and those that wait and are placed together with it, by UID."""
    group = world.engine.attempts.gang_status(pod)
    return {each.uid: each for each in (pod, *(group.waiting if group is not None and group.has_quorum else ()))}


def pods_as_old(world: World, pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """Return those of some pods of which nobody can say whether they are served before a pod of their priority.

    Objects tell the second in which they were created; who came first in it is known to the scheduler alone.
    """
    priority = world.engine.groups.priority
    return [
        each for each in others if priority(each) == priority(pod) and each.creation_timestamp == pod.creation_timestamp
    ]


def places_in_queue(world: World) -> dict[str, int]:
    """Return the places of the pods that wait for their turn, by UID, from 1 on: after how many others each is served.

    As :func:`pods_waiting_beside` counts them: pods that came within the same second have the last place of them, and
    pods that are placed together the same one.
    """
    listed, rank = queue_of(world), partial(_rank, world)
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
    """Return the pods that this scheduler serves, in the order of their turns."""
    state, names = world.engine.state, world.engine.scheduler_names
    listed = [
        each
        for each in world.pending.values()
        if each.scheduler_name in names
        and not gated(each)
        and not world.engine.groups.problem(each)
        and state.reservation(each.uid) is None
    ]
    return sorted(listed, key=partial(_rank, world))


def _rank(world: World, pod: Pod) -> tuple[int, float]:
    return -world.engine.groups.priority(pod), pod.created_at or 0.0


@contextmanager
def placed(world: World, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Have pods that the engine knows placed where they fit, one after the other; yield those that have a place.

    For those that would preempt others room is kept, as it is until these have left it.
    """
    with world.engine.preemptions.supposing():
        yield from _placed(world, pods, preempting=world.engine.preemption)


def _placed(world: World, pods: Iterable[Pod], *, preempting: bool) -> Iterator[list[Pod]]:
    state, algorithm, preemptions = world.engine.state, world.engine.algorithm, world.engine.preemptions
    reserver = world.engine.attempts.reserver
    found: list[Pod] = []
    decisions: list[Decision] = []
    refused: set[Hashable] = set()
    before = reserver.before()
    try:
        for pod in pods:
            ours = created(world, pod, pod.uid)
            alike = answer_key(ours)
            if alike in refused or state.reservation(pod.uid) is not None or world.engine.groups.problem(ours):
                continue
            group = world.engine.attempts.gang_status(ours)
            if group is not None:
                if group.schedules_as_gang:
                    decided = world.engine.attempts.decide_group(group)
                    together = [each for each in decided if each.placement is not None]
                    asked = world.engine.attempts.group_preemptions
                    if preempting and not together and asked is not None:
                        asked.post_filter(group, decided, 0.0)
                    decisions += together
                    uids = {each.uid for each in together}
                    found += [each for each in group.waiting if each.uid in uids]
                continue
            decision = algorithm.decide(ours)
            if decision.outcome is Outcome.PLACED:
                reserver.reserve(ours, decision)
                preemptions.placed(decision)
                decisions.append(decision)
                found.append(pod)
            elif preempting and preemptions.post_filter(ours, decision, 0.0).preemption is not None:
                continue
            elif (
                state.holds.get(ours.uid) is None
                and algorithm.classes.cluster_part(ours) is None
                and not state.nominations
            ):
                refused.add(alike)  # whatever others take meanwhile
        yield found
    finally:
        reserver.undo(decisions, before)


def answer_key(pod: Pod) -> Hashable:
    """Return what pods have in common that ask for the same, whose turns come one after the other."""
    texts = (frozenset(each.items()) for each in (pod.labels, pod.annotations))
    return (pod.spec.fingerprint, pod.namespace, pod.priority, *texts)


@contextmanager
def made_anew(world: World, pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Have there be, waiting, the pods that controllers make in the place of some."""
    engine = world.engine
    made: list[Pod] = []
    try:
        for pod in pods:
            made.append(created(world, pod, world.new_uid()))
            engine.observe_pod(made[-1], 0.0)
            engine.queue.remove(made[-1].uid)
        yield made
    finally:
        for pod in reversed(made):
            engine.remove_pod(pod.uid, 0.0)
