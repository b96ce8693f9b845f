"""The progress of groups: which wait to be placed together, and which run with fewer pods than they need."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.groups import GroupKey
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import Policies, WhenStale
from vgpu_scheduler.state import State


@dataclass(frozen=True, slots=True)
class StaleGroup:
    """A group that has run with fewer pods than it needs for longer than it may.

    Attributes
    ----------
    key
        The group.
    pods
        Its running pods of this scheduler, by name.
    message
        What is wrong.
    is_to_end
        Whether its pods are to be evicted: all their policies say so, and others of the group wait without a hold.
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
        Knows for which pods room is kept.
    groups
        Knows the groups, and which of them have changed.
    policies
        Set for how long a group may run with too few pods.
    scheduler_names
        Groups without pods of these schedulers are ignored.
    """

    def __init__(self, state: State, groups: PodGroups, policies: Policies, scheduler_names: Collection[str]) -> None:
        self._state = state
        self._groups = groups
        self._policies = policies
        self._scheduler_names = scheduler_names
        self._waiting: dict[GroupKey, float] = {}
        """Since when groups have waited to be placed together."""
        self._short: dict[GroupKey, float] = {}
        """Since when groups have run with fewer pods than they need."""
        self._stale: frozenset[GroupKey] = frozenset()
        self._generation = -1
        """The generation of the policies at the last look."""

    @property
    def waiting(self) -> int:
        """Number of groups that wait to be placed together."""
        return len(self._waiting)

    @property
    def stale(self) -> int:
        """Number of groups that have run with fewer pods than they need for longer than they may."""
        return len(self._stale)

    def update(self, now: float) -> list[float]:
        """Look at the groups that have changed since the last call.

        Returns
        -------
        list of float
            For each group that became complete (as many of its pods are bound as it needs), how long it waited, in
            seconds.
        """
        touched = self._groups.take_touched(anew=self._generation != self._policies.catalogue.generation)
        self._generation = self._policies.catalogue.generation
        found: list[float] = []
        for key in sorted(touched):
            status = self._groups.status(key)
            if self._waits(status):
                self._waiting.setdefault(key, now)
            elif (since := self._waiting.pop(key, None)) is not None and self.running(key) and status.is_quorum_bound:
                found.append(now - since)
            if self.runs_short(key):
                self._short.setdefault(key, now)
            else:
                self._short.pop(key, None)
        return found

    def stale_groups(self, now: float) -> list[StaleGroup]:
        """Return the groups that have run with too few pods for too long, as of the last call of :meth:`update`."""
        found = [stale for key in self._short if (stale := self.stale_group(key, now)) is not None]
        self._stale = frozenset(stale.key for stale in found)
        return found

    def stale_group(self, key: GroupKey, now: float) -> StaleGroup | None:
        """Return a group if it has run with too few pods for too long; else None."""
        since = self._short.get(key)
        return None if since is None else self.stale_after(key, now - since)

    def stale_after(self, key: GroupKey, seconds: float) -> StaleGroup | None:
        """Return a group if it runs with too few pods, and may not for so many seconds; else None."""
        if not self.runs_short(key):
            return None
        running, status = self.running(key), self._groups.status(key)
        rules = [self._policies.resolve(pod).groups for pod in running]
        after = max(each.stale_after for each in rules)
        if seconds < after:
            return None
        message = (
            f"group {key} has run for more than {after:g} s with {status.placed} of the"
            f" {status.minimum} pods that it needs"
        )
        ends = all(each.when_stale is WhenStale.EVICT for each in rules)
        return StaleGroup(key, running, message, ends and self._may_restart(status))

    def running(self, key: GroupKey) -> tuple[Pod, ...]:
        """Return the pods of a group that are bound, not terminal, and of this scheduler, by name."""
        found = (
            pod
            for pod in self._groups.pods(key)
            if pod.scheduler_name in self._scheduler_names and self._groups.runs(pod)
        )
        return tuple(sorted(found, key=lambda pod: (pod.name, pod.uid)))

    def runs_short(self, key: GroupKey) -> bool:
        """Tell whether a group runs with fewer pods than it needs."""
        status = self._groups.status(key)
        return bool(status.needed and not status.missing_object and self.running(key))

    def _may_restart(self, status: GroupStatus) -> bool:
        """Tell whether pods of a group wait without a hold, so that it can restart if its other pods are evicted."""
        kept = any(self._state.holds.get(pod.uid) is not None for pod in status.waiting)
        return bool(status.waiting) and not kept

    @staticmethod
    def _waits(status: GroupStatus) -> bool:
        """Tell whether a group waits for pods to be placed or bound until it has as many as it needs."""
        return not status.is_quorum_bound and (bool(status.waiting) or status.placed > status.bound)
