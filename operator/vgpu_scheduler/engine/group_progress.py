"""How groups get on: which wait to be placed together, and which run with fewer pods than they need, for how long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import Policies, WhenStale
from vgpu_scheduler.state import State

__all__ = ["GroupProgress", "StaleGroup"]


@dataclass(frozen=True, slots=True)
class StaleGroup:
    """A group that has run with fewer pods than it needs for longer than it may.

    Attributes
    ----------
    key
        Which group.
    pods
        Its pods that run and are this scheduler's, by name.
    message
        What is wrong.
    is_to_end
        Whether the policies of all of them have them evicted: others of the group wait, and no room is made for these.
    """

    key: GroupKey
    pods: tuple[Pod, ...]
    message: str
    is_to_end: bool


class GroupProgress:
    """Follows the groups of pods.

    Parameters
    ----------
    state
        Knows for whom room is kept.
    groups
        Knows the groups, and which of them have changed.
    policies
        Say for how long a group may run with too few pods.
    scheduler_names
        Groups without any pod of these are somebody else's.
    """

    def __init__(self, state: State, groups: PodGroups, policies: Policies, scheduler_names: Collection[str]) -> None:
        self._state = state
        self._groups = groups
        self._policies = policies
        self._scheduler_names = scheduler_names
        self._waiting: dict[GroupKey, float] = {}
        """Since when pods of a group wait to be placed together."""
        self._short: dict[GroupKey, float] = {}
        """Since when a group runs with fewer pods than it needs."""
        self._stale: frozenset[GroupKey] = frozenset()
        self._generation = -1
        """Of the policies, when it was looked last."""

    @property
    def waiting(self) -> int:
        """How many groups wait to be placed together."""
        return len(self._waiting)

    @property
    def stale(self) -> int:
        """How many groups have run with fewer pods than they need for longer than they may."""
        return len(self._stale)

    def look(self, now: float) -> list[float]:
        """Look at the groups that have changed since the last time.

        Returns
        -------
        list of float
            How long those waited that have become whole since, in seconds: as many of their pods are bound as are
            needed.
        """
        touched = self._groups.take_touched(anew=self._generation != self._policies.catalogue.generation)
        self._generation = self._policies.catalogue.generation
        found: list[float] = []
        for key in sorted(touched):
            status = self._groups.status(key)
            is_running = bool(self._running(key))
            if self._waits(status):
                self._waiting.setdefault(key, now)
            elif (since := self._waiting.pop(key, None)) is not None and is_running and status.is_quorum_bound:
                found.append(now - since)
            if is_running and not status.missing_object and status.needed:
                self._short.setdefault(key, now)
            else:
                self._short.pop(key, None)
        return found

    def stale_groups(self, now: float) -> list[StaleGroup]:
        """Return the groups that have run with too few pods for too long, as of the last look."""
        found = [stale for key in self._short if (stale := self.stale_group(key, now)) is not None]
        self._stale = frozenset(stale.key for stale in found)
        return found

    def stale_group(self, key: GroupKey, now: float) -> StaleGroup | None:
        """Return a group that has run with too few pods for too long; None if it has not."""
        running, since = self._running(key), self._short.get(key)
        if since is None or not running:
            return None
        status, rules = self._groups.status(key), [self._policies.resolve(pod).groups for pod in running]
        after = max(each.stale_after for each in rules)
        if now - since < after or not status.needed:
            return None
        message = (
            f"group {key} has run for more than {after:g} s with {status.placed} of the"
            f" {status.minimum} pods that it needs"
        )
        ends = all(each.when_stale is WhenStale.EVICT for each in rules)
        return StaleGroup(key, running, message, ends and self._may_restart(status))

    def _may_restart(self, status: GroupStatus) -> bool:
        """Tell whether pods of a group wait for which no room is made, so that it starts with them if others end."""
        kept = any(self._state.holds.get(pod.uid) is not None for pod in status.waiting)
        return bool(status.waiting) and not kept

    def _running(self, key: GroupKey) -> tuple[Pod, ...]:
        """Return the pods of a group that are bound, have not ended and are this scheduler's, by name."""
        found = (
            pod
            for pod in self._groups.pods(key)
            if pod.scheduler_name in self._scheduler_names and self._groups.runs(pod)
        )
        return tuple(sorted(found, key=lambda pod: (pod.name, pod.uid)))

    @staticmethod
    def _waits(status: GroupStatus) -> bool:
        """Tell whether pods of a group wait to be placed, or to be bound, so that as many run as are needed."""
        return not status.is_quorum_bound and (bool(status.waiting) or status.placed > status.bound)
