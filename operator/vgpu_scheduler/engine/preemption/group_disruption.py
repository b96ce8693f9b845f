"""What objects that describe groups say about disruption: the priority of the pods, and which pods end together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.preemption.victims import Unit, importance, waits_to_be_bound
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.state import State


class GroupDisruption:
    """Tells which pods end together, and the priority that counts for preemption.

    Parameters
    ----------
    state
        Knows what pods hold.
    groups
        Knows the groups of pods; without it, no pod has a group.
    """

    def __init__(self, state: State, groups: PodGroups | None = None) -> None:
        self._state = state
        self._groups = groups

    def with_group_priority(self, pod: Pod) -> Pod:
        """Return a pod with the priority of its group, where the group's object sets one.

        Otherwise each pod deliberately keeps its own priority: less important pods in its group are no reason to evict
        it. For its place in the queue see :meth:`PodGroups.priority`.
        """
        key = None if self._groups is None else self._groups.key_of(pod.uid)
        if key is None:
            return pod
        assert self._groups is not None
        told = self._groups.described_priority(key)
        return pod if told is None or told == pod.priority else msgspec.structs.replace(pod, priority=told)

    def unit(self, pod: Pod) -> Unit:
        """Return the pods with reservations that end together with a pod, itself among them.

        A terminating pod ends alone: no other pod has to end with it.
        """
        key = None if pod.deleting else self._whole(pod)
        return (self.with_group_priority(pod),) if key is None else self._placed(key)

    def left_behind(self, pods: Iterable[Pod]) -> list[Unit]:
        """Return the remaining pods of groups that are disrupted as a whole and of which some pods end already."""
        keys = dict.fromkeys(key for pod in pods if pod.deleting and (key := self._whole(pod)) is not None)
        return [unit for key in keys if (unit := self._placed(key))]

    def ends_with(self, pod: Pod) -> str:
        """Return the group that a pod ends with, as ``namespace/name``; empty for a pod that ends alone."""
        key = self._whole(pod)
        return "" if key is None else str(key)

    def is_needed(self, pod: Pod, unit: Unit) -> bool:
        """Tell whether evicting a unit would make a waiting pod of the same group useless.

        It would if the group is disrupted as a whole, or if fewer pods than its minimum would be left, counting the
        waiting pod.
        """
        groups = self._groups
        key = None if groups is None else groups.key_of(pod.uid)
        if groups is None or key is None:
            return False
        of_group = [each for each in unit if groups.key_of(each.uid) == key]
        if not of_group:
            return False
        if self._whole(unit[0]) == key:
            return True
        ending, status = sum(not each.deleting for each in of_group), groups.status(key)
        return ending > 0 and status.placed - ending + 1 < status.minimum

    def _whole(self, pod: Pod) -> GroupKey | None:
        """Return the group of a pod if it is disrupted as a whole; else None."""
        key = None if self._groups is None else self._groups.key_of(pod.uid)
        if key is None:
            return None
        assert self._groups is not None
        described = self._groups.object_of(key)
        return key if described is not None and described.disrupted_whole else None

    def _placed(self, key: GroupKey) -> Unit:
        """Return the pods of a group that have reservations and are not terminating, in the order of :data:`Unit`."""
        assert self._groups is not None
        found = []
        for pod in map(self.with_group_priority, self._groups.pods(key)):
            reservation = self._state.reservation(pod.uid)
            if reservation is not None and not pod.deleting:
                found.append((waits_to_be_bound(pod, reservation), importance(pod), pod))
        return tuple(pod for *_, pod in sorted(found, key=lambda each: each[:2]))
